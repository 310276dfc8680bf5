import { ConversationView } from "./conversation";
import { type Agent, AGENTS, format, useConversation, useKnownConversations } from "./threads";

export function Page() {
  const [conversation, show] = useConversation();
  const { agent, threadId } = conversation;
  const known = useKnownConversations();
  return (
    <>
      <nav aria-label="Conversations">
        <p className="brand">
          <Mark /> Office desk
        </p>
        <div className="agents" role="group" aria-label="Assistant">
          {(Object.keys(AGENTS) as Agent[]).map((each) => (
            <a key={each} href={format({ agent: each, threadId: null })} aria-current={each === agent ? "true" : undefined}>
              {AGENTS[each].title}
            </a>
          ))}
        </div>
        <a className="button new" aria-label="New conversation" href={format({ agent, threadId: null })}>
          New<span className="wide"> conversation</span>
        </a>
        <ul>
          {known
            .filter((each) => each.agent === agent)
            .map((each) => (
              <li key={each.threadId}>
                <a href={format(each)} aria-current={each.threadId === threadId ? "page" : undefined}>
                  {each.title}
                </a>
              </li>
            ))}
        </ul>
        <p className="note">Saved on the server. Open this page on another device to see the same.</p>
      </nav>
      <ConversationView
        key={agent}
        conversation={conversation}
        onThreadId={(created) => show({ agent, threadId: created })}
      />
    </>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
      <path d="M3 4h14M3 10h9M3 16h5" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round" />
      <circle cx="16" cy="10" r="2" fill="currentColor" />
    </svg>
  );
}
