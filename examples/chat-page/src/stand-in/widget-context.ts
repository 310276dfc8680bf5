/** How the components of a widget run its actions. */
import { createContext } from "react";

import type { ActionConfig } from "./wire";

/** `form` has the inputs that belong to the action. */
export type RunAction = (action: ActionConfig, form: HTMLFormElement | null) => void;

export interface Actions {
  run: RunAction;
  isDisabled: boolean;
  /** The item of the widget. Widgets of one thread may use the same names for their inputs. */
  itemId: string;
}

export const ActionContext = createContext<Actions>({ run: () => {}, isDisabled: true, itemId: "" });

/** The ids of an input and of its label. */
export const fieldIds = ({ itemId }: Actions, name: string) => ({ field: `${itemId}-${name}`, label: `${itemId}-${name}-label` });
