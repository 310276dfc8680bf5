"""ChatKit's requests: one URL, and an operation in the body."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints, TypeAdapter

from threadwire.core.entries import Json

Id = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Limit = Annotated[int, Field(ge=1, le=1000)]

DEFAULT_LIMIT = 20
MAX_TITLE = 1000


class _Params(BaseModel):
    model_config = ConfigDict(extra="ignore")


# -- parts ------------------------------------------------------------------------------------------------------------


class TextContent(_Params):
    type: Literal["input_text"]
    text: str


class TagContent(_Params):
    type: Literal["input_tag"]
    id: str
    text: str
    data: dict[str, Any]
    group: str | None = None
    interactive: StrictBool = False


UserContent = Annotated[TextContent | TagContent, Field(discriminator="type")]


class ToolChoice(_Params):
    id: str


class InferenceOptions(_Params):
    tool_choice: ToolChoice | None = None
    model: str | None = None


class UserMessageInput(_Params):
    content: Annotated[list[UserContent], Field(max_length=1000)]
    attachments: Annotated[list[Id], Field(max_length=50)]
    quoted_text: str | None = None
    inference_options: InferenceOptions


class InputAnswer(_Params):
    values: Annotated[list[str], Field(max_length=1000)] = Field(default_factory=list)
    skipped: StrictBool = False


class StructuredInputSubmission(_Params):
    status: Literal["answered", "skipped"] = "answered"
    answers: dict[str, InputAnswer] = Field(default_factory=dict)


class Action(_Params):
    type: str
    payload: Json = None


# -- parameters -------------------------------------------------------------------------------------------------------


class OfThread(_Params):
    thread_id: Id


class CreateParams(_Params):
    input: UserMessageInput


class MessageParams(OfThread):
    input: UserMessageInput


class ToolOutputParams(OfThread):
    result: Json


class StructuredInputParams(OfThread):
    item_id: Id
    input: StructuredInputSubmission


class RetryParams(OfThread):
    item_id: Id


class ActionParams(OfThread):
    item_id: Id | None = None
    action: Action


class PageParams(_Params):
    limit: Limit | None = None
    order: Literal["asc", "desc"] = "desc"
    after: Id | None = None


class ItemsParams(PageParams):
    thread_id: Id


class UpdateParams(OfThread):
    title: Annotated[str, StringConstraints(max_length=MAX_TITLE)]


class FeedbackParams(OfThread):
    item_ids: Annotated[list[Id], Field(max_length=1000)]
    kind: Literal["positive", "negative"]


class AttachmentParams(_Params):
    name: Annotated[str, StringConstraints(min_length=1, max_length=1000)]
    size: Annotated[int, Field(ge=0)]
    mime_type: Annotated[str, StringConstraints(min_length=3, max_length=200)]


class DeleteAttachmentParams(_Params):
    attachment_id: Id


class TranscribeParams(_Params):
    audio_base64: str
    mime_type: str


# -- operations -------------------------------------------------------------------------------------------------------


class CreateThread(BaseModel):
    type: Literal["threads.create"]
    params: CreateParams


class AddUserMessage(BaseModel):
    type: Literal["threads.add_user_message"]
    params: MessageParams


class AddClientToolOutput(BaseModel):
    type: Literal["threads.add_client_tool_output"]
    params: ToolOutputParams


class AddStructuredInput(BaseModel):
    type: Literal["threads.add_structured_input"]
    params: StructuredInputParams


class RetryAfterItem(BaseModel):
    type: Literal["threads.retry_after_item"]
    params: RetryParams


class CustomAction(BaseModel):
    type: Literal["threads.custom_action"]
    params: ActionParams


class SyncCustomAction(BaseModel):
    type: Literal["threads.sync_custom_action"]
    params: ActionParams


class GetThread(BaseModel):
    type: Literal["threads.get_by_id"]
    params: OfThread


class ListThreads(BaseModel):
    type: Literal["threads.list"]
    params: PageParams


class UpdateThread(BaseModel):
    type: Literal["threads.update"]
    params: UpdateParams


class DeleteThread(BaseModel):
    type: Literal["threads.delete"]
    params: OfThread


class ListItems(BaseModel):
    type: Literal["items.list"]
    params: ItemsParams


class GiveFeedback(BaseModel):
    type: Literal["items.feedback"]
    params: FeedbackParams


class CreateAttachment(BaseModel):
    type: Literal["attachments.create"]
    params: AttachmentParams


class DeleteAttachment(BaseModel):
    type: Literal["attachments.delete"]
    params: DeleteAttachmentParams


class Transcribe(BaseModel):
    type: Literal["input.transcribe"]
    params: TranscribeParams


OnThread = AddUserMessage | AddClientToolOutput | AddStructuredInput | RetryAfterItem | CustomAction
Streaming = CreateThread | OnThread
Immediate = (
    SyncCustomAction
    | GetThread
    | ListThreads
    | UpdateThread
    | DeleteThread
    | ListItems
    | GiveFeedback
    | CreateAttachment
    | DeleteAttachment
    | Transcribe
)
_REQUEST: TypeAdapter[Streaming | Immediate] = TypeAdapter(
    Annotated[Streaming | Immediate, Field(discriminator="type")]
)


class Envelope(BaseModel):
    """The body of every request."""

    type: str = Field(description="The operation, such as `threads.create`")
    params: dict[str, Any] = Field(description="The parameters of the operation")
    metadata: dict[str, Any] = Field(default_factory=dict, description="For the page's own use; ignored")

    def request(self) -> Streaming | Immediate:
        """The operation with its parameters. Raises `ValidationError`."""
        return _REQUEST.validate_python({"type": self.type, "params": self.params})
