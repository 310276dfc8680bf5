/** What the agent does before it answers: tool calls and reasoning. */
import { useState } from "react";

import { Icon } from "./icons";
import { Sources } from "./items";
import { Markdown } from "./markdown";
import type { Task, Workflow } from "./wire";

export function WorkflowView({ workflow }: { workflow: Workflow }) {
  const isRunning = workflow.summary === undefined && workflow.tasks.some(isLoading);
  const [choice, setChoice] = useState<boolean | null>(null);
  const isExpanded = choice ?? (isRunning || (workflow.expanded ?? false));
  return (
    <section className="workflow" aria-label="Steps" aria-busy={isRunning}>
      <button type="button" aria-expanded={isExpanded} onClick={() => setChoice(!isExpanded)}>
        {isRunning ? <span className="spinner" /> : <Icon name={iconOf(workflow)} />}
        <span className={isRunning ? "shimmer" : ""}>{titleOf(workflow)}</span>
        <span className="chevron">
          <Icon name="down" size={14} />
        </span>
      </button>
      {isExpanded && (
        <ol>
          {workflow.tasks.map((task, at) => (
            <li key={at}>
              <TaskView task={task} />
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

const isLoading = (task: Task): boolean => task.status_indicator === "loading";

function titleOf({ type, tasks, summary }: Workflow): string {
  if (summary && "title" in summary) return summary.title;
  if (summary) return summary.duration < 1 ? "Thought for a moment" : `Thought for ${Math.round(summary.duration)} s`;
  if (type === "reasoning") return "Thinking";
  return tasks.findLast(({ title }) => title)?.title ?? "Working";
}

function iconOf({ type, tasks, summary }: Workflow): string {
  if (summary && "title" in summary && summary.icon) return summary.icon;
  return type === "reasoning" ? "lightbulb" : (tasks.at(-1)?.icon ?? "bolt");
}

export function TaskView({ task }: { task: Task }) {
  return (
    <div className="task" data-status={task.status_indicator ?? "none"}>
      <span className="mark">{isLoading(task) ? <span className="spinner" /> : <Icon name={task.icon ?? defaultIcon(task)} />}</span>
      <div>
        {task.title && (
          <p className="title">
            {task.title}
            {task.status_indicator === "complete" && (
              <span className="done">
                <Icon name="check" size={13} />
              </span>
            )}
          </p>
        )}
        {task.queries && task.queries.length > 0 && <p className="queries">{task.queries.join(" · ")}</p>}
        {task.content && <Markdown text={task.content} />}
        {task.sources && task.sources.length > 0 && <Sources sources={task.sources} />}
      </div>
    </div>
  );
}

const DEFAULT_ICONS = { custom: "bolt", web_search: "search", thought: "lightbulb", file: "document", image: "images" };

const defaultIcon = ({ type }: Task): string => DEFAULT_ICONS[type];
