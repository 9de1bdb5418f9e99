# SPDX-License-Identifier: GPL-2.0-or-later
# dprd-web, the page in a browser. Only this program needs libmicrohttpd: without it, the program is left out.

WEB := $(BUILD)/bin/dprd-web
WEB_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard dprd/web/*.c)) $(BUILD)/dprd/web/page.o
HAS_MICROHTTPD := $(shell pkg-config --exists libmicrohttpd 2>/dev/null && echo yes)

.PHONY: no-web
no-web:
	@echo 'dprd-web is left out: it needs libmicrohttpd (apt-get install libmicrohttpd-dev, or make setup)'

all: $(if $(HAS_MICROHTTPD),$(WEB),no-web)

$(BUILD)/dprd/web/page.o: dprd/web/page.S $(wildcard dprd/web/page/*)
	@mkdir -p $(@D)
	$(call Q,PAGE )$(CC) -c -o $@ $<

$(WEB): $(WEB_OBJECTS) $(BUILD)/libdprd.a
	@mkdir -p $(@D)
	$(call Q,LINK )$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lmicrohttpd

## make web          dprd-web, the page in a browser (needs libmicrohttpd-dev)
.PHONY: web
web: $(if $(HAS_MICROHTTPD),$(WEB),no-web)
