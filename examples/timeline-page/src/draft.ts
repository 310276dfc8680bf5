import { useState } from "react";

/** State that survives a reload of the page, until it is discarded: what the user has typed and not sent. */
export function useDraft<T>(key: string, initial: T): [T, (value: T) => void, () => void] {
  const name = `draft:${key}`;
  const [state, setState] = useState<{ name: string; value: T }>(() => ({ name, value: stored(name) ?? initial }));
  const current = state.name === name ? state.value : (stored<T>(name) ?? initial);
  const change = (value: T) => {
    store(name, JSON.stringify(value));
    setState({ name, value });
  };
  const discard = () => {
    store(name, null);
    setState({ name, value: initial });
  };
  return [current, change, discard];
}

function stored<T>(name: string): T | undefined {
  try {
    return (JSON.parse(sessionStorage.getItem(name) ?? "null") as T | null) ?? undefined;
  } catch {
    return undefined;
  }
}

function store(name: string, text: string | null): void {
  try {
    if (text === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, text);
  } catch {
    // The browser rejects every write: the draft lasts as long as the page.
  }
}
