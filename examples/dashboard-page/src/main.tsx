import "@copilotkit/react-core/v2/styles.css";
import "./style.css";

import { createRoot } from "react-dom/client";

import { Page } from "./page";
import { openThread } from "./thread";

const thread = await openThread();
createRoot(document.getElementById("root")!).render(<Page thread={thread} />);
