// A bundle as a bundler writes it: it gets React from the page and hands the component to the page.
var __LGUI_chat = ((require) => {
  const { createElement } = require("react");
  const components = { weather: ({ city }) => createElement("b", null, `Sunny in ${city}`) };
  return {
    render(name, id) {
      const root = document.getElementById(id).shadowRoot;
      const container = root.appendChild(document.createElement("div"));
      window[Symbol.for("LGUI_EXT_STORE")].respond(id, components[name], container);
    },
  };
})(globalThis[Symbol.for("LGUI_REQUIRE")]);
