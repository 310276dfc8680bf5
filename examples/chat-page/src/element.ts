/** ChatKit's element: OpenAI's own where its CDN can be reached, otherwise the open stand-in. */
const CDN = "https://cdn.platform.openai.com/deployments/chatkit/chatkit.js";
const TIMEOUT = 3_000;

/** `?element=open` uses the stand-in everywhere. */
export async function defineElement(): Promise<void> {
  const wantsOpen = new URLSearchParams(location.search).get("element") === "open";
  const isLoaded = !wantsOpen && (await load(CDN));
  if (isLoaded || customElements.get("openai-chatkit")) return;
  const { define } = await import("./stand-in/element");
  define();
}

/** Whether a script was loaded in time. */
function load(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = address;
    script.async = true;
    script.onload = () => resolve(true);
    script.onerror = () => resolve(false);
    setTimeout(() => {
      script.remove();
      resolve(false);
    }, TIMEOUT);
    document.head.append(script);
  });
}
