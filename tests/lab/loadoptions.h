/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * loadoptions.h - the command line of load.c, into its struct run.
 */
static const char usage[] =
	"usage: load [options]\n"
	"  --users N            users (100)\n"
	"  --seed S             of all random numbers (1)\n"
	"  --warmup W           seconds before measuring (0)\n"
	"  --seconds T          measured seconds (10)\n"
	"  --drain D            seconds that running requests may take afterwards (0)\n"
	"  --think-ms M         mean pause of a user (2000)\n"
	"  --timeout T          seconds after which a request has failed (60)\n"
	"  --name NAME          (www.example.test)   --port PORT (80)\n"
	"  --family 4|6|any     (any)\n"
	"  --resolve once|per-connection   once for each group (once)\n"
	"  --groups 4:1:1:1     shares of the users; one resolver and address each (1)\n"
	"  --files LIST         what to ask for: lines \"path size crc32 weight\"\n"
	"  --path PATH          one path instead, only its length checked\n"
	"  --json OUT           the result (standard output)\n"
	"  --log OUT            a line per request: start end bytes outcome to from port node path\n"
	"  --progress           a line of JSON per second on standard output\n";

static bool groups_read(const char *text)
{
	char *end;

	for (run.group_count = 0; run.group_count < GROUPS_MAX; text = end + 1) {
		unsigned long share = strtoul(text, &end, 10);

		if (end == text || !share || share > USERS_MAX)
			return false;
		run.groups[run.group_count++].share = (unsigned)share;
		if (*end != ':')
			return *end == '\0';
	}
	return false;
}

static bool family_read(const char *text)
{
	run.family = strcmp(text, "4") == 0 ? AF_INET : strcmp(text, "6") == 0 ? AF_INET6 : AF_UNSPEC;
	return run.family != AF_UNSPEC || strcmp(text, "any") == 0;
}

static bool resolve_read(const char *text)
{
	run.per_connection = strcmp(text, "per-connection") == 0;
	return run.per_connection || strcmp(text, "once") == 0;
}

static bool number_read(const char *text, double low, double high, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return end != text && *end == '\0' && *ret >= low && *ret <= high;
}

static bool count_read(const char *text, double low, double high, uint64_t *ret)
{
	double number = 0;
	bool good = number_read(text, low, high, &number);

	*ret = (uint64_t)number;
	return good;
}

static bool option_read(int option, const char *value)
{
	uint64_t count;

	switch (option) {
	case 'u':
		if (!count_read(value, 1, USERS_MAX, &count))
			return false;
		run.users = (unsigned)count;
		return true;
	case 's':
		return count_read(value, 0, 1e15, &run.seed);
	case 'w':
		return number_read(value, 0, 1e6, &run.warmup_s);
	case 't':
		return number_read(value, 0.1, 1e6, &run.seconds);
	case 'd':
		return number_read(value, 0, 1e6, &run.drain_s);
	case 'm':
		return number_read(value, 0, 1e9, &run.think_ms);
	case 'o':
		return number_read(value, 0.01, 1e6, &run.timeout_s);
	case 'g':
		return groups_read(value);
	case '4':
		return family_read(value);
	case 'r':
		return resolve_read(value);
	default:
		return false;
	}
}

static bool files_read(const char *list)
{
	static struct file single;

	if (run.path) {
		snprintf(single.path, sizeof(single.path), "%s", run.path);
		run.set.count = 1;
		run.set.files = &single;
		return true;
	}
	if (!list) {
		fprintf(stderr, "load: --files or --path is missing\n%s", usage);
		return false;
	}
	return fileset_read(list, &run.set);
}

static bool options_read(int argc, char **argv)
{
	static const struct option options[] = {
		{ "users", 1, NULL, 'u' },   { "seed", 1, NULL, 's' },     { "warmup", 1, NULL, 'w' },
		{ "seconds", 1, NULL, 't' }, { "drain", 1, NULL, 'd' },    { "think-ms", 1, NULL, 'm' },
		{ "timeout", 1, NULL, 'o' }, { "name", 1, NULL, 'n' },     { "port", 1, NULL, 'p' },
		{ "family", 1, NULL, '4' },  { "resolve", 1, NULL, 'r' },  { "groups", 1, NULL, 'g' },
		{ "files", 1, NULL, 'f' },   { "path", 1, NULL, 'P' },     { "json", 1, NULL, 'j' },
		{ "log", 1, NULL, 'l' },     { "progress", 0, NULL, 'v' }, { NULL, 0, NULL, 0 },
	};
	const char *list = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'n')
			run.name = optarg;
		else if (option == 'p')
			run.port = optarg;
		else if (option == 'f')
			list = optarg;
		else if (option == 'P')
			run.path = optarg;
		else if (option == 'j')
			run.json = optarg;
		else if (option == 'l')
			run.log = optarg;
		else if (option == 'v')
			run.progress = true;
		else if (option == '?' || !option_read(option, optarg)) {
			fprintf(stderr, "%s%s%s",
				option == '?' ? "" : "load: not a value: ", option == '?' ? "" : optarg,
				option == '?' ? usage : "\n");
			return false;
		}
	}
	if (run.log && !(log_file = fopen(run.log, "w"))) {
		perror(run.log);
		return false;
	}
	return optind == argc && files_read(list);
}
