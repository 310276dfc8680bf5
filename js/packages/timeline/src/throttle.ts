const HIDDEN = 250;

/**
 * Calls a function at most once per animation frame; a call in between is deferred to the next one. A hidden page has
 * no animation frames, so a timer replaces them.
 */
export function throttled(call: () => void): () => void {
  let isScheduled = false;
  const run = () => {
    isScheduled = false;
    call();
  };
  return () => {
    if (isScheduled) return;
    isScheduled = true;
    const hasFrames = typeof document !== "undefined" && document.visibilityState === "visible";
    if (hasFrames && typeof requestAnimationFrame === "function") requestAnimationFrame(run);
    else setTimeout(run, typeof document === "undefined" ? 0 : HIDDEN);
  };
}
