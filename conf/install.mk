# SPDX-License-Identifier: GPL-2.0-or-later
# install.mk - what "make install" puts where; "make uninstall" removes the same files.

SBINDIR := $(PREFIX)/sbin
BINDIR := $(PREFIX)/bin
MANDIR := $(PREFIX)/share/man
DOCDIR := $(PREFIX)/share/doc/dprd
# Where each shell looks for the completions of a distribution's own packages, or of programs installed beside them.
BASH_COMPLETIONS := $(PREFIX)/share/bash-completion/completions
ZSH_COMPLETIONS := $(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
FISH_COMPLETIONS := $(PREFIX)/share/fish/vendor_completions.d
COMPLETIONS := $(BASH_COMPLETIONS)/dprctl $(ZSH_COMPLETIONS)/_dprctl $(FISH_COMPLETIONS)/dprctl.fish
# Where systemd looks for the units of a distribution's own packages.
UNITDIR := $(if $(filter /usr,$(PREFIX)),/lib,$(PREFIX)/lib)/systemd/system
SYSCONFDIR := /etc/dprd

UNITS := dprd.service loadcast.service $(if $(HAS_MICROHTTPD),dprd-web.service)
MANPAGES = $(wildcard docs/man/*.[158])
man_path = $(MANDIR)/man$(subst .,,$(suffix $(1)))/$(notdir $(1))

INSTALLED = $(SBINDIR)/dprd $(SBINDIR)/loadcast $(SBINDIR)/dprd-web $(BINDIR)/dprctl $(BINDIR)/dpr-sim \
	$(BINDIR)/dpr-surge \
	$(addprefix $(UNITDIR)/,$(UNITS)) \
	$(PREFIX)/lib/sysusers.d/dprd.conf $(PREFIX)/lib/tmpfiles.d/dprd.conf $(PREFIX)/lib/sysctl.d/60-dprd.conf \
	$(DOCDIR)/dprd.conf $(COMPLETIONS) $(foreach page,$(MANPAGES),$(call man_path,$(page)))

# The pages say at their foot which version they describe.
.PHONY: install-man
install-man:
	set -e; $(foreach page,$(MANPAGES),install -d $(dir $(DESTDIR)$(call man_path,$(page))); \
		sed 's/^\.Os$$/.Os dprd $(VERSION)/' $(page) >$(DESTDIR)$(call man_path,$(page)); \
		chmod 644 $(DESTDIR)$(call man_path,$(page));)

# dprctl itself makes them of its tables.
.PHONY: completions
completions: $(addprefix $(BUILD)/completions/dprctl.,bash zsh fish)
$(BUILD)/completions/dprctl.%: $(BUILD)/bin/dprctl
	@mkdir -p $(@D)
	$(call Q,MADE )$< --completion=$* >$@.new && mv $@.new $@

# Everything that "make install" compiles.
.PHONY: programs
programs: $(PROGRAMS) $(SIM) $(SURGE) web completions

## make install      build, and install below PREFIX (/usr/local) and DESTDIR; never overwrites a configuration
.PHONY: install
install: programs install-man
	install -D -m 755 $(BUILD)/bin/dprd $(DESTDIR)$(SBINDIR)/dprd
	install -D -m 755 $(BUILD)/bin/loadcast $(DESTDIR)$(SBINDIR)/loadcast
	$(if $(HAS_MICROHTTPD),install -D -m 755 $(WEB) $(DESTDIR)$(SBINDIR)/dprd-web)
	install -D -m 755 $(BUILD)/bin/dprctl $(DESTDIR)$(BINDIR)/dprctl
	install -D -m 755 $(BUILD)/bin/dpr-sim $(DESTDIR)$(BINDIR)/dpr-sim
	install -D -m 755 $(SURGE) $(DESTDIR)$(BINDIR)/dpr-surge
	install -d $(DESTDIR)$(UNITDIR)
	set -e; for unit in $(UNITS); do \
		sed -e 's,@SBINDIR@,$(SBINDIR),g' -e 's,@BINDIR@,$(BINDIR),g' conf/$$unit \
			>$(DESTDIR)$(UNITDIR)/$$unit; \
		chmod 644 $(DESTDIR)$(UNITDIR)/$$unit; \
	done
	install -D -m 644 conf/dprd.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/dprd.conf
	install -D -m 644 conf/dprd.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/dprd.conf
	install -D -m 644 conf/60-dprd.sysctl $(DESTDIR)$(PREFIX)/lib/sysctl.d/60-dprd.conf
	install -D -m 644 $(BUILD)/completions/dprctl.bash $(DESTDIR)$(BASH_COMPLETIONS)/dprctl
	install -D -m 644 $(BUILD)/completions/dprctl.zsh $(DESTDIR)$(ZSH_COMPLETIONS)/_dprctl
	install -D -m 644 $(BUILD)/completions/dprctl.fish $(DESTDIR)$(FISH_COMPLETIONS)/dprctl.fish
	install -D -m 644 conf/dprd.conf $(DESTDIR)$(DOCDIR)/dprd.conf
	@if [ -e $(DESTDIR)$(SYSCONFDIR)/dprd.conf ]; then \
		echo "kept $(DESTDIR)$(SYSCONFDIR)/dprd.conf; the defaults are in $(DESTDIR)$(DOCDIR)/dprd.conf"; \
	else \
		install -D -m 644 conf/dprd.conf $(DESTDIR)$(SYSCONFDIR)/dprd.conf; \
		echo "installed $(DESTDIR)$(SYSCONFDIR)/dprd.conf: put your nodes into it"; \
	fi
ifeq ($(DESTDIR),)
	@echo "now, as root: systemd-sysusers; systemctl daemon-reload; sysctl --system;"
	@echo "dprctl genkey > $(SYSCONFDIR)/cluster.key (once; the same on all nodes); systemd-tmpfiles --create dprd.conf;"
	@echo "edit $(SYSCONFDIR)/dprd.conf; systemctl enable --now loadcast dprd$(if $(HAS_MICROHTTPD),; the page: systemctl enable --now dprd-web)"
endif

## make deb          the Debian packages, into build/deb; a second build of the same source gives the same bytes
.PHONY: deb
deb:
	@conf/make-deb $(BUILD)/deb $(VERSION)

# Units that run would go on without their files, and links to them would lead nowhere. Units of another installation (a
# package, another PREFIX) are left alone.
define stop_units
	@set -e; [ ! -d /run/systemd/system ] || for unit in $(UNITS); do \
		path=$$(systemctl show --property FragmentPath --value $$unit); \
		if [ -n "$$path" ] && [ "$$path" -ef $(UNITDIR)/$$unit ]; then systemctl disable --now $$unit; fi; \
	done
endef

# No program would be left that removes rules, routes and BPF programs. Without a valid configuration dprd cannot have run.
define purge_kernel
	@[ ! -x $(SBINDIR)/dprd ] || ! $(SBINDIR)/dprd --check-config >/dev/null 2>&1 || $(SBINDIR)/dprd --purge || { \
		echo "nothing is uninstalled: stop a dprd that runs by hand, or see above why --purge fails (PURGE=no does without)" \
			>&2; exit 1; }
endef

## make uninstall    stop the units; remove what "make install" put there, but neither configuration nor key;
##                   PURGE=no: leave in the kernel what dprd set up
.PHONY: uninstall
uninstall:
ifeq ($(DESTDIR),)
	$(stop_units)
	$(if $(filter no,$(PURGE)),,$(purge_kernel))
endif
	rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	@[ ! -d $(DESTDIR)$(DOCDIR) ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)$(DOCDIR)
ifeq ($(DESTDIR),)
	@[ ! -d /run/systemd/system ] || systemctl daemon-reload
endif
	@[ ! -d $(DESTDIR)$(SYSCONFDIR) ] || echo "not removed: $(DESTDIR)$(SYSCONFDIR) (configuration and key)"
