"""How the scheduling assistant looks in ChatKit: each result as Markdown in its task, and as a card."""

from typing import Any

from threadwire.chatkit import Formats

formats = Formats()

Result = dict[str, Any]
Widget = dict[str, Any]


@formats.tool(
    "show_schedule_overview", title="Schedule overview", icon="calendar", progress="🔧 Using tool: schedule overview…"
)
def overview(result: Result) -> list[str | Widget]:
    sections = [
        {
            "type": "ListViewItem",
            "children": [
                {"type": "Icon", "name": "book-open" if section["teacher"] else "circle-question"},
                {"type": "Text", "value": section["title"], "weight": "semibold"},
                {"type": "Caption", "value": f"{section['slot']}, {section['hours']:.1f}h"},
            ],
        }
        for section in result["sections"].values()
    ]
    list_view = {
        "type": "ListView",
        "limit": 4,
        "status": {"text": "Sections", "icon": "notebook"},
        "children": sections,
    }
    return [_workloads(result), _card("Teacher workloads", _bars(result["teachers"])), list_view]


@formats.tool(
    "show_load_distribution", title="Load distribution", icon="chart", progress="🔧 Using tool: load distribution…"
)
def load_distribution(result: Result) -> list[str | Widget]:
    chart = {
        "type": "Chart",
        "data": [{"teacher": each["name"], "load": each["current_load"]} for each in result["teachers"].values()],
        "series": [{"type": "bar", "dataKey": "load", "label": "Hours"}],
        "xAxis": "teacher",
        "showYAxis": True,
        "height": 180,
    }
    note = {"type": "Caption", "value": f"The average is {result['average_load']}h."}
    return [_workloads(result), _card("Load distribution", [chart, note])]


@formats.tool("assign_section", title="Assign {section_id} to {teacher_id}", icon="write", show_errors=True)
def assignment(result: Result) -> list[str | Widget]:
    if "error" in result:
        return [result["message"]]
    badge = {"type": "Badge", "label": "Assigned", "color": "success"}
    return [_workloads(result), _card(result["message"], [badge, *_bars(result["teachers"])])]


@formats.tool("find_conflicts", title="Conflicts", icon="bug", progress="🔧 Using tool: find conflicts…")
def conflicts(result: Result) -> str:
    clashes = [
        f"- **{each['teacher']}**, {each['slot']}: {', '.join(each['sections'])}" for each in result["conflicts"]
    ]
    return "\n".join([result["message"], *clashes])


def _workloads(result: Result) -> str:
    lines = [
        f"- **{each['name']}**: {each['current_load']:.1f}h/{each['max_load']} ({each['utilization']})"
        for each in result["teachers"].values()
    ]
    return "\n".join([result["message"], "", "**Teacher Workloads:**", *lines])


def _bars(teachers: dict[str, Any]) -> list[Widget]:
    return [
        {
            "type": "Row",
            "gap": 2,
            "children": [
                {"type": "Text", "value": each["name"], "weight": "semibold"},
                {"type": "Spacer"},
                {"type": "Caption", "value": f"{each['current_load']:.1f}h/{each['max_load']}"},
                {"type": "Badge", "label": each["utilization"], "color": _color(each)},
            ],
        }
        for each in teachers.values()
    ]


def _color(teacher: dict[str, Any]) -> str:
    share = teacher["current_load"] / teacher["max_load"]
    return "danger" if share > 0.9 else "warning" if share > 0.7 else "success"


def _card(title: str, children: list[Widget]) -> Widget:
    return {"type": "Card", "size": "md", "children": [{"type": "Title", "value": title, "size": "sm"}, *children]}
