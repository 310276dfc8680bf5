/** The components of widgets, one small function each. */
import type { Widgets } from "@openai/chatkit";
import { type CSSProperties, type FormEvent, type MouseEvent, type ReactNode, use } from "react";

import { Chart, type ChartNode } from "./chart";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { Checkbox, DatePicker, Input, RadioGroup, Select, Textarea } from "./widget-controls";
import { ActionContext, fieldIds } from "./widget-context";
import { blockStyle, boxStyle, spacing, steps, textStyle, themed } from "./widget-style";

/** Charts are components of ChatKit, but its package does not declare them. */
export type WidgetNode = Widgets.WidgetComponent | Widgets.WidgetRoot | Widgets.ListViewItem | ChartNode;

const ICON_SIZES = { xs: 12, sm: 14, md: 16, lg: 18, xl: 22, "2xl": 26, "3xl": 32 };

export function WidgetChildren({ nodes }: { nodes: WidgetNode | WidgetNode[] | undefined }) {
  const listed = nodes === undefined ? [] : Array.isArray(nodes) ? nodes : [nodes];
  return listed.map((node, at) => <WidgetComponent key={keyOf(node) ?? at} node={node} />);
}

const keyOf = (node: WidgetNode): string | undefined => node.key ?? node.id;

function WidgetComponent({ node }: { node: WidgetNode }): ReactNode {
  switch (node.type) {
    case "Text":
      return <Text node={node} />;
    case "Title":
      return <h3 className="title" data-size={node.size} data-weight={node.weight} style={textStyle(node)}>{node.value}</h3>;
    case "Caption":
      return <p className="caption" data-size={node.size} data-weight={node.weight} style={textStyle(node)}>{node.value}</p>;
    case "Markdown":
      return <Markdown text={node.value} />;
    case "Badge":
      return <Badge node={node} />;
    case "Icon":
      return (
        <span className="glyph" style={{ color: themed(node.color) }}>
          <Icon name={node.name} size={ICON_SIZES[node.size ?? "md"]} />
        </span>
      );
    case "Image":
      return <img className="image" src={node.src} alt={node.alt ?? ""} style={{ ...blockStyle(node), objectFit: node.fit }} />;
    case "Divider":
      return <hr style={{ borderColor: themed(node.color), marginBlock: steps(node.spacing) }} />;
    case "Spacer":
      return <span className="space" style={{ minWidth: steps(node.minSize) }} />;
    case "Row":
      return <Group direction="row" style={boxStyle(node)}>{node.children}</Group>;
    case "Col":
      return <Group direction="col" style={boxStyle(node)}>{node.children}</Group>;
    case "Box":
      return <Group direction={node.direction ?? "col"} style={boxStyle(node)}>{node.children}</Group>;
    case "Form":
      return <Form node={node} />;
    case "Transition":
      return <div className="transition"><WidgetChildren nodes={node.children} /></div>;
    case "Button":
      return <Button node={node} />;
    case "Label":
      return <Label node={node} />;
    case "Input":
      return <Input node={node} />;
    case "Textarea":
      return <Textarea node={node} />;
    case "Select":
      return <Select node={node} />;
    case "DatePicker":
      return <DatePicker node={node} />;
    case "Checkbox":
      return <Checkbox node={node} />;
    case "RadioGroup":
      return <RadioGroup node={node} />;
    case "Table":
      return <Table node={node} />;
    case "Chart":
      return <Chart node={node} />;
    case "Table.Row":
    case "Table.Cell":
    case "ListViewItem":
    case "Card":
    case "ListView":
    case "Basic":
      return <Group direction="col" style={{}}>{node.children}</Group>;
    default:
      // A component that this element does not know yet: what is in it may still be useful.
      return "children" in (node as object) ? <WidgetChildren nodes={(node as { children?: WidgetNode[] }).children} /> : null;
  }
}

function Label({ node: { fieldName, value } }: { node: Widgets.Label }) {
  const { field, label } = fieldIds(use(ActionContext), fieldName);
  return (
    <label className="label" id={label} htmlFor={field}>
      {value}
    </label>
  );
}

function Group({ direction, style, children }: { direction: "row" | "col"; style: CSSProperties; children: WidgetNode[] | undefined }) {
  return (
    <div className="group" data-direction={direction} style={style}>
      <WidgetChildren nodes={children} />
    </div>
  );
}

function Text({ node }: { node: Widgets.TextComponent }) {
  const { editable } = node;
  const style: CSSProperties = {
    ...textStyle(node),
    fontStyle: node.italic ? "italic" : undefined,
    textDecoration: node.lineThrough ? "line-through" : undefined,
    width: typeof node.width === "number" ? `${node.width}px` : node.width,
  };
  if (!editable) return <p className="text" data-size={node.size} data-weight={node.weight} style={style}>{node.value}</p>;
  return (
    <input
      className="text"
      style={style}
      name={editable.name}
      aria-label={editable.placeholder ?? editable.name}
      defaultValue={node.value}
      placeholder={editable.placeholder}
      required={editable.required}
    />
  );
}

function Badge({ node: { label, color = "secondary", variant = "soft", size = "sm" } }: { node: Widgets.Badge }) {
  return (
    <span className="badge" data-variant={variant} data-size={size} style={{ "--color": `var(--${color})` } as CSSProperties}>
      {label}
    </span>
  );
}

function Form({ node }: { node: Widgets.Form }) {
  const { run } = use(ActionContext);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (node.onSubmitAction) run(node.onSubmitAction, event.currentTarget);
  };
  return (
    <form className="group" data-direction={node.direction ?? "col"} style={boxStyle(node)} onSubmit={submit}>
      <WidgetChildren nodes={node.children} />
    </form>
  );
}

function Button({ node }: { node: Widgets.Button }) {
  const { run, isDisabled } = use(ActionContext);
  const click = ({ currentTarget }: MouseEvent<HTMLButtonElement>) => {
    if (node.onClickAction) run(node.onClickAction, currentTarget.form);
  };
  const isPrimary = node.style === "primary" || node.color === "primary";
  return (
    <button
      type={node.submit ? "submit" : "button"}
      className={isPrimary ? "primary" : ""}
      data-variant={node.variant}
      style={{ ...(node.color && !isPrimary && { color: themed(node.color) }), ...(node.block && { width: "100%" }) }}
      disabled={isDisabled || node.disabled}
      onClick={click}
    >
      {node.iconStart && <Icon name={node.iconStart} />}
      {node.label}
      {node.iconEnd && <Icon name={node.iconEnd} />}
    </button>
  );
}

function Table({ node }: { node: Extract<Widgets.WidgetComponent, { type: "Table" }> }) {
  return (
    <div className="table">
      <table>
        <tbody>
          {node.children?.map((row, at) => (
            <tr key={row.key ?? at}>
              {row.children?.map((cell, index) => {
                const Cell = row.header ? "th" : "td";
                return (
                  <Cell key={cell.key ?? index} colSpan={cell.colSpan} rowSpan={cell.rowSpan} style={{ textAlign: cell.align, padding: spacing(cell.padding) }}>
                    <WidgetChildren nodes={cell.children} />
                  </Cell>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
