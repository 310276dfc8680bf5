/** Dark or light: as the reader chose, otherwise as the agent's theme says. */
import type { ChatKitOptions, ColorScheme } from "@openai/chatkit";
import { useState } from "react";

const KEY = "threadwire-chat-scheme";

export function useScheme(options: ChatKitOptions | null): [ColorScheme, () => void] {
  const [chosen, setChosen] = useState(() => localStorage.getItem(KEY) as ColorScheme | null);
  const scheme = chosen ?? schemeOf(options) ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const toggle = () => {
    const next = scheme === "dark" ? "light" : "dark";
    localStorage.setItem(KEY, next);
    setChosen(next);
  };
  return [scheme, toggle];
}

const schemeOf = (options: ChatKitOptions | null): ColorScheme | undefined =>
  typeof options?.theme === "string" ? options.theme : options?.theme?.colorScheme;

export const themeWith = (theme: ChatKitOptions["theme"], colorScheme: ColorScheme): ChatKitOptions["theme"] => ({
  ...(typeof theme === "object" ? theme : {}),
  colorScheme,
});
