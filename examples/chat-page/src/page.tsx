/** The page: the agents, and the conversation with one of them. */
import { AGENTS, type Agent, format, useConversation } from "./address";
import { Assistant } from "./assistant";
import { useOptions } from "./options";
import { useScheme } from "./scheme";

export function Page() {
  const { agent, threadId } = useConversation();
  const options = useOptions(agent);
  const [scheme, toggleScheme] = useScheme(options);
  return (
    <div className="page" data-scheme={scheme}>
      <nav aria-label="Agents">
        <p className="brand">
          <Mark path="M4 7h10M4 12h16M4 17h7" /> Threadwire
        </p>
        <ul>
          {(Object.keys(AGENTS) as Agent[]).map((each) => (
            <li key={each}>
              <a href={format({ agent: each, threadId: null })} aria-current={each === agent ? "page" : undefined}>
                <Mark path={AGENTS[each].icon} />
                <span>
                  <b>{AGENTS[each].title}</b>
                  <small>{AGENTS[each].tagline}</small>
                </span>
              </a>
            </li>
          ))}
        </ul>
        <p className="note">LangGraph agents in ChatKit. Reload at any time: the conversation continues.</p>
      </nav>
      <main>
        {options ? (
          <Assistant
            key={agent}
            agent={agent}
            threadId={threadId}
            options={options}
            scheme={scheme}
            onToggleScheme={toggleScheme}
          />
        ) : (
          <p className="loading">Loading…</p>
        )}
      </main>
    </div>
  );
}

function Mark({ path }: { path: string }) {
  return (
    <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
      <path d={path} fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
