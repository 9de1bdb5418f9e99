/* SPDX-License-Identifier: GPL-2.0-or-later */
/* page.S - takes the files of the page into the program, as they are. */
.macro file name, path
	.global \name, \name\()_end
\name:
	.incbin "\path"
\name\()_end:
	.byte 0
.endm

	.section .rodata
	file web_page, "dprd/web/page/index.html"
	file web_style, "dprd/web/page/style.css"
	file web_script, "dprd/web/page/page.js"
	file web_icon, "dprd/web/page/icon.svg"

	.section .note.GNU-stack, "", %progbits
