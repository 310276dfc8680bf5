/** The `theme` option as custom properties of the element. */
import type { ChatKitOptions, ColorOption, ThemeOption } from "@openai/chatkit";

const RADII = { pill: 22, round: 16, soft: 9, sharp: 2 };
const GAPS = { compact: 12, normal: 18, spacious: 26 };

export function applyTheme(element: HTMLElement, option: ChatKitOptions["theme"]): void {
  const theme: ThemeOption = typeof option === "string" ? { colorScheme: option } : (option ?? {});
  const scheme = theme.colorScheme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  element.dataset["scheme"] = scheme;
  const properties = {
    "--radius": `${RADII[theme.radius ?? "soft"]}px`,
    "--gap": `${GAPS[theme.density ?? "normal"]}px`,
    "--base": theme.typography?.baseSize && `${theme.typography.baseSize}px`,
    "--font": theme.typography?.fontFamily,
    "--mono": theme.typography?.fontFamilyMono,
    ...colors(theme.color),
  };
  for (const [name, value] of Object.entries(properties)) {
    if (value) element.style.setProperty(name, value);
    else element.style.removeProperty(name);
  }
}

function colors({ accent, surface, grayscale }: ColorOption = {}): Record<string, string | undefined> {
  return {
    "--accent": accent?.primary,
    "--paper": surface?.background,
    "--side": surface?.foreground,
    "--hue": grayscale && String(grayscale.hue),
    "--tint": grayscale && `${grayscale.tint}%`,
  };
}
