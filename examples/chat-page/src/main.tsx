import "./style.css";

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { defineElement } from "./element";
import { Page } from "./page";

void defineElement();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <Page />
  </StrictMode>,
);
