import type { StartScreenOption, UserMessageContent } from "@openai/chatkit";

import { Icon } from "./icons";

interface Props {
  options: StartScreenOption;
  onPrompt: (content: UserMessageContent[]) => void;
}

export function StartScreen({ options: { greeting = "What can I help with today?", prompts = [] }, onPrompt }: Props) {
  return (
    <div className="start">
      <h1>{greeting}</h1>
      <ul aria-label="Suggestions">
        {prompts.map(({ label, prompt, icon }) => (
          <li key={label}>
            <button type="button" onClick={() => onPrompt(contentOf(prompt))}>
              <Icon name={icon ?? "sparkle"} />
              {label}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

const contentOf = (prompt: string | UserMessageContent[]): UserMessageContent[] =>
  typeof prompt === "string" ? [{ type: "input_text", text: prompt }] : prompt;
