// A bundle as bundlers make it: React comes from the page, and the component goes to it.
var __LGUI_chat = ((require) => {
  const { createElement } = require("react");
  const components = { weather: ({ city }) => createElement("b", null, `Sunny in ${city}`) };
  return {
    render(name, id) {
      const root = document.getElementById(id).shadowRoot;
      const place = root.appendChild(document.createElement("div"));
      window[Symbol.for("LGUI_EXT_STORE")].respond(id, components[name], place);
    },
  };
})(globalThis[Symbol.for("LGUI_REQUIRE")]);
