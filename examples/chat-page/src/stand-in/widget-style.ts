/** The layout properties of widgets as CSS. Numbers are steps of four pixels, as in ChatKit. */
import type { Widgets } from "@openai/chatkit";
import type { CSSProperties } from "react";

const STEP = 4;
const SEMANTIC = new Set(["primary", "secondary", "success", "danger", "warning", "info", "discovery", "tertiary"]);
const ALIGN = { start: "flex-start", center: "center", end: "flex-end", baseline: "baseline", stretch: "stretch" };
const JUSTIFY = { ...ALIGN, between: "space-between", around: "space-around", evenly: "space-evenly" };
const RADII: Record<string, string> = {
  none: "0", "2xs": "2px", xs: "4px", sm: "6px", md: "8px", lg: "12px", xl: "16px", "2xl": "20px", "3xl": "24px", "4xl": "32px",
  full: "999px", "100%": "100%",
};

type Color = string | { dark: string; light: string } | undefined;
type Length = number | string | undefined;
type Spacing = Length | { top?: Length; right?: Length; bottom?: Length; left?: Length; x?: Length; y?: Length };

/** A colour of the theme, or any CSS colour. */
export function themed(color: Color): string | undefined {
  if (color === undefined) return undefined;
  if (typeof color === "object") return `light-dark(${color.light}, ${color.dark})`;
  return SEMANTIC.has(color) ? `var(--${color})` : color;
}

export const steps = (length: Length): string | undefined => (typeof length === "number" ? `${length * STEP}px` : length);

const pixels = (length: Length): string | undefined => (typeof length === "number" ? `${length}px` : length);

export function spacing(value: Spacing): string | undefined {
  if (typeof value !== "object") return steps(value);
  const { top, right, bottom, left, x, y } = value;
  return [top ?? y, right ?? x, bottom ?? y, left ?? x].map((side) => steps(side) ?? "0").join(" ");
}

export function boxStyle(box: Widgets.Box | Widgets.Row | Widgets.Col | Widgets.Form): CSSProperties {
  return {
    ...blockStyle(box),
    gap: steps(box.gap),
    padding: spacing(box.padding),
    alignItems: box.align && ALIGN[box.align],
    justifyContent: box.justify && JUSTIFY[box.justify],
    flexWrap: box.wrap,
    flex: box.flex,
    background: themed(box.background),
    border: typeof box.border === "number" ? `${box.border}px solid var(--line)` : undefined,
  };
}

type Block = Pick<
  Widgets.Box,
  | "width" | "height" | "size" | "minWidth" | "minHeight" | "minSize" | "maxWidth" | "maxHeight" | "maxSize" | "aspectRatio"
  | "radius" | "margin"
>;

export function blockStyle(block: Block): CSSProperties {
  return {
    width: pixels(block.width ?? block.size),
    height: pixels(block.height ?? block.size),
    minWidth: pixels(block.minWidth ?? block.minSize),
    minHeight: pixels(block.minHeight ?? block.minSize),
    maxWidth: pixels(block.maxWidth ?? block.maxSize) ?? "100%",
    maxHeight: pixels(block.maxHeight ?? block.maxSize),
    aspectRatio: block.aspectRatio,
    borderRadius: block.radius && RADII[block.radius],
    margin: spacing(block.margin),
  };
}

type TextNode = Widgets.TextComponent | Widgets.Title | Widgets.Caption;

export function textStyle(node: TextNode): CSSProperties {
  return {
    color: themed(node.color),
    textAlign: node.textAlign,
    ...(node.truncate && { overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" }),
    ...(node.maxLines && { display: "-webkit-box", WebkitBoxOrient: "vertical", WebkitLineClamp: node.maxLines, overflow: "hidden" }),
  };
}
