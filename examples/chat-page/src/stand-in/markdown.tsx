import { memo } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";

const PLUGINS = [remarkGfm];
const COMPONENTS: Components = {
  a: ({ href, children }) => (
    <a href={href} target="_blank" rel="noreferrer">
      {children}
    </a>
  ),
  // A wide table scrolls by itself, so the page does not.
  table: ({ children }) => (
    <div className="table">
      <table>{children}</table>
    </div>
  ),
};

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={PLUGINS} components={COMPONENTS}>
        {closeFence(text)}
      </ReactMarkdown>
    </div>
  );
});

/** Close a code block that is still being written, so that what follows is not drawn as code. */
function closeFence(text: string): string {
  return (text.match(/^```/gm)?.length ?? 0) % 2 === 1 ? `${text}\n\`\`\`` : text;
}
