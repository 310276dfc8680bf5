var __LGUI_echo = { render() {} };
