/** Widgets: cards, lists and plain groups of components. */
import type { Widgets } from "@openai/chatkit";
import { type FormEvent, type MouseEvent, type ReactNode, useState } from "react";

import { actionWith } from "./form-values";
import { Icon } from "./icons";
import { WidgetChildren } from "./widget-components";
import { ActionContext, type RunAction } from "./widget-context";
import { spacing, themed } from "./widget-style";
import type { ActionConfig, WidgetItem } from "./wire";

interface Props {
  item: WidgetItem;
  isResponding: boolean;
  onAction: (action: ActionConfig) => Promise<void>;
}

export function WidgetView({ item, isResponding, onAction }: Props) {
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const run: RunAction = (action, form) => {
    const isBlocked = isRunning || (isResponding && action.handler !== "client" && action.streaming !== false);
    if (isBlocked) return;
    setRunning(true);
    setError(null);
    onAction(actionWith(action, form))
      .catch((problem: unknown) => setError(problem instanceof Error ? problem.message : "This did not work."))
      .finally(() => setRunning(false));
  };
  return (
    <ActionContext value={{ run, isDisabled: isRunning || isResponding, itemId: item.id }}>
      <Root item={item} run={run} isDisabled={isRunning || isResponding} />
      {error && <p role="alert">{error}</p>}
    </ActionContext>
  );
}

function Root({ item: { widget }, run, isDisabled }: { item: WidgetItem; run: RunAction; isDisabled: boolean }) {
  switch (widget.type) {
    case "Card":
      return <Card card={widget} run={run} isDisabled={isDisabled} />;
    case "ListView":
      return <ListView list={widget} run={run} isDisabled={isDisabled} />;
    case "Basic":
      return (
        <div className="basic" data-direction={widget.direction ?? "col"} style={{ padding: spacing(widget.padding) }}>
          <WidgetChildren nodes={widget.children} />
        </div>
      );
  }
}

function Card({ card, run, isDisabled }: { card: Widgets.Card; run: RunAction; isDisabled: boolean }) {
  const { confirm, cancel, asForm } = card;
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (confirm) run(confirm.action, event.currentTarget);
  };
  const clicked = (action: ActionConfig) => (event: MouseEvent<HTMLButtonElement>) => run(action, event.currentTarget.form);
  const body = (
    <>
      {card.status && <Status status={card.status} />}
      {!card.collapsed && (
        <div className="body" style={{ padding: spacing(card.padding) }}>
          <WidgetChildren nodes={card.children} />
        </div>
      )}
      {(confirm ?? cancel) && (
        <div className="buttons">
          {cancel && (
            <button type="button" disabled={isDisabled} onClick={clicked(cancel.action)}>
              {cancel.label}
            </button>
          )}
          {confirm && (
            <button
              type={asForm ? "submit" : "button"}
              className="primary"
              disabled={isDisabled}
              onClick={asForm ? undefined : clicked(confirm.action)}
            >
              {confirm.label}
            </button>
          )}
        </div>
      )}
    </>
  );
  const shared = { className: "card", "data-size": card.size ?? "md", style: { background: themed(card.background) } };
  return asForm ? (
    <form {...shared} aria-label="Card" onSubmit={submit}>
      {body}
    </form>
  ) : (
    <section {...shared} aria-label="Card">
      {body}
    </section>
  );
}

function ListView({ list, run, isDisabled }: { list: Widgets.ListView; run: RunAction; isDisabled: boolean }) {
  const limit = typeof list.limit === "number" ? list.limit : list.children.length;
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? list.children : list.children.slice(0, limit);
  const hidden = list.children.length - shown.length;
  return (
    <section className="list" aria-label="List">
      {list.status && <Status status={list.status} />}
      <ul>
        {shown.map((item, at) => (
          <li key={item.key ?? item.id ?? at}>
            <ListRow item={item} run={run} isDisabled={isDisabled} />
          </li>
        ))}
      </ul>
      {hidden > 0 && (
        <button type="button" className="more" onClick={() => setWhole(true)}>
          Show {hidden} more
        </button>
      )}
    </section>
  );
}

function ListRow({ item, run, isDisabled }: { item: Widgets.ListViewItem; run: RunAction; isDisabled: boolean }) {
  const { onClickAction: action } = item;
  const children: ReactNode = <WidgetChildren nodes={item.children} />;
  if (!action) return <div className="row">{children}</div>;
  return (
    <button type="button" className="row" disabled={isDisabled} onClick={() => run(action, null)}>
      {children}
    </button>
  );
}

function Status({ status }: { status: NonNullable<Widgets.Card["status"]> }) {
  return (
    <p className="status">
      {"icon" in status && status.icon && <Icon name={status.icon} size={14} />}
      {"favicon" in status && status.favicon && <img src={status.favicon} alt="" />}
      {status.text}
    </p>
  );
}
