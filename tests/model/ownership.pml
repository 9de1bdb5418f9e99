/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ownership.pml - a Spin model of shares and leases (docs/biactive.md): can two nodes accept the same SYN?
 *
 * A tick is one announcement period. In each tick every node has one turn: it reads what arrived, gives the kernel its
 * share, renews its lease and announces; or it stands still; or its host dies. Announcements arrive at once, but are
 * read at the receiver's next turn; a node that stands still reads the newest when it goes on. The possible faults, and
 * their number, are set with -D:
 *
 *   NODES      3, or 2
 *   LOSSES     this many announcements in a row may be lost between two nodes, counted in both directions; at
 *              any time on one pair of nodes only
 *   QUORUM     as in dprd.conf: fewer than half of the members ask for no share
 *   PARTITION  the victim is cut off from the others for a while, any number of times
 *   DEAF       what arrives while the victim stands still may be lost
 *   HOLD       a node may put off giving a share to one that came back
 *   REFUSED    a node may give up what it has at any time, and ask for nothing
 *   WEIGHTS    the victim changes the weight that it wishes for, between 1 and 2
 *   PERIODS    of two nodes, each changes at will between two periods; by the longer one lease and take-over are
 *              MORE ticks longer. Announcements come as often with both
 *   PAUSE      the victim may be a virtual machine that is paused: the clock of its lease stands still, too
 *
 * One node, the victim, may stand still, restart its announcer, or die with its host and start again, any
 * number of times.
 *
 * Buckets are not spelled out. For two nodes a and b with costs c(a) and c(b) in a bucket, a owns it by its
 * own share only if c(a) / used(a) < c(b) / weight(a, b), and b only if c(b) / used(b) < c(a) / weight(b, a).
 * Costs with both true exist exactly if used(a) * used(b) > weight(a, b) * weight(b, a): the assertion below
 * speaks about all buckets at once. A node that is left out has weight 0.
 *
 * run-model makes faulty copies of this file with sed, by the words in the comments "fault: ...".
 */
#ifndef NODES
#define NODES 3
#endif
#ifndef LOSSES
#define LOSSES 4
#endif
#ifndef LEASE
#define LEASE 3
#endif
#ifndef TAKEOVER
#define TAKEOVER 4
#endif
#ifdef PERIODS
#define MORE 2
#else
#define MORE 0
#endif
#define READY (TAKEOVER + 1 + MORE) /* fault: no wait */

#define PAIRS (NODES * NODES)
#define AT(a, b) ((a) * NODES + (b))
#define PAIR(a, b) ((a) < (b) -> AT(a, b) : AT(b, a))
#define OLD (LEASE + MORE) /* an age that no lease can come from */

/* The level of a peer: it does not count; its echo is needed; it also has a share. */
#define OUT 0
#define HEARD 1
#define IN 2

/* The arrays are indexed by AT(a, b): the knowledge of a about b. */
byte level[PAIRS] = IN;
byte weight[PAIRS] = 1; /* that b asks for; a's kernel gives it to b while IN */
byte grant[PAIRS]; /* that b's kernel gave a, by b's newest announcement */
byte echo_age[PAIRS] = OLD; /* of a's announcement that b echoed with that grant */
byte heard_age[PAIRS] = OLD; /* of b's newest announcement */
byte silent[PAIRS]; /* turns of a since it read one of b's */
byte arrived[PAIRS]; /* not yet read: 0, or 1 + the weight asked for */

byte waited[NODES]; /* turns since a asks for a share, to READY; 0: it does not ask */
byte wish[NODES] = 1; /* the weight to ask for */
byte used[NODES]; /* the weight that a's kernel gives a */
byte lease[NODES]; /* ticks */
bit down[NODES];
byte stood[NODES]; /* turns that it stood still, to OLD */

byte victim, turn, lost, lossy_pair;
byte j, there; /* counters of one step, 0 between steps */
#ifdef PARTITION
bit cut;
#define CUT(a, b) (cut && ((a) == victim || (b) == victim))
#else
#define CUT(a, b) 0
#endif
#define MAY_LOSE(a, b) ((!lost || lossy_pair == PAIR(a, b)) && lost < LOSSES)
#define HAS_SHARE(a, b) (level[AT(a, b)] == IN -> weight[AT(a, b)] : 0)

/* With two members each goes on alone. A member that asks for nothing has a vote by a young echo. */
#if defined(QUORUM) && NODES > 2
#define MAY_ASK(members) ((members) * 2 > NODES)
byte said_age[PAIRS] = OLD; /* of a's announcement that b's unread one echoes */
byte vote_age[PAIRS] = OLD; /* of the one that the last read one echoed */
#define VOTE(a, b) (vote_age[AT(a, b)] < OLD) /* fault: vote */
#define SAY(a, b, age) said_age[AT(a, b)] = age
#define READ_VOTE(a, b) vote_age[AT(a, b)] = (arrived[AT(a, b)] -> said_age[AT(a, b)] : vote_age[AT(a, b)]); \
	said_age[AT(a, b)] = OLD
#define AGE_VOTE(a, b) vote_age[AT(a, b)] = (VOTE(a, b) -> vote_age[AT(a, b)] + 1 : OLD); \
	said_age[AT(a, b)] = (said_age[AT(a, b)] < OLD -> said_age[AT(a, b)] + 1 : OLD)
#define FORGET_VOTE(a, b) vote_age[AT(a, b)] = OLD
#else
#define MAY_ASK(members) 1
#define VOTE(a, b) 0
#define SAY(a, b, age) skip
#define READ_VOTE(a, b) skip
#define AGE_VOTE(a, b) skip
#define FORGET_VOTE(a, b) skip
#endif

#ifdef PERIODS
bit slow[NODES]; /* has the longer period */
bit says_slow[PAIRS]; /* b's announcement that a has not yet read */
bit is_slow[PAIRS]; /* b, by the newest that a has read */
byte since[NODES] = TAKEOVER; /* ticks with the longer period, to TAKEOVER */
bit short_word[PAIRS]; /* b's newest announcement that a has makes no long lease: said too early */
bit short_echo[PAIRS]; /* so does a's announcement that b echoed last */
#define TAKEOVER_FROM(a, b) (TAKEOVER + (slow[a] || is_slow[AT(a, b)] -> MORE : 0))
#define UNHEARD(a, b) (level[AT(a, b)] == OUT && heard_age[AT(a, b)] == OLD)
#define IS_LONG(a, b) (slow[a] && since[a] == TAKEOVER /* fault: at once */ && \
	(UNHEARD(a, b) || (is_slow[AT(a, b)] && !short_echo[AT(a, b)] /* fault: not echoed */)))
#define LEASE_FROM(a, b) (LEASE + (IS_LONG(a, b) -> MORE : 0))
#define LEASE_ALONE(a) LEASE_FROM(a, 1 - (a))
#define READY_OF(a) (TAKEOVER_FROM(a, 1 - (a)) + 1) /* fault: own period */
#define SAY_PERIOD(a, b) says_slow[AT(b, a)] = slow[a]; \
	short_echo[AT(b, a)] = short_word[AT(a, b)]; short_word[AT(b, a)] = (!slow[a] || since[a] < TAKEOVER)
#define READ_PERIOD(a, b) is_slow[AT(a, b)] = (arrived[AT(a, b)] -> says_slow[AT(a, b)] : is_slow[AT(a, b)]); \
	says_slow[AT(a, b)] = 0
#define BEGIN_PERIOD(a) since[a] = TAKEOVER
#define COUNT_PERIOD(a) since[a] = (since[a] < TAKEOVER -> since[a] + 1 : since[a])
#define FORGET_PERIOD(a, b) is_slow[AT(a, b)] = 0; says_slow[AT(a, b)] = 0; \
	short_word[AT(a, b)] = 1; short_word[AT(b, a)] = 1; short_echo[AT(a, b)] = 1; short_echo[AT(b, a)] = 1
#else
#define TAKEOVER_FROM(a, b) TAKEOVER
#define LEASE_FROM(a, b) LEASE
#define LEASE_ALONE(a) LEASE
#define READY_OF(a) READY
#define SAY_PERIOD(a, b) skip
#define READ_PERIOD(a, b) skip
#define BEGIN_PERIOD(a) skip
#define COUNT_PERIOD(a) skip
#define FORGET_PERIOD(a, b) skip
#endif

#ifdef PAUSE
bit paused[NODES];
#define PAUSED(a) paused[a]
#else
#define PAUSED(a) 0
#endif

#define OVERLAP(a, b) (lease[a] && lease[b] && !PAUSED(a) && !PAUSED(b) && \
	used[a] * used[b] > HAS_SHARE(a, b) * HAS_SHARE(b, a))

#ifdef REACH_TAKEOVER
/* Must fail: a node accepts for all while another is dead. */
#define UNREACHED(a) !(a != victim && down[victim] && lease[a] && level[AT(a, victim)] == OUT)
#elif defined(REACH_GIVE_BACK)
/* Must fail: after that, all have their shares again. */
bit taken;
#define UNREACHED(a) !(taken && a == victim && lease[0] && lease[1] && lease[NODES - 1] && \
	level[AT(0, 1)] == IN && level[AT(1, 0)] == IN && \
	level[AT(0, NODES - 1)] == IN && level[AT(NODES - 1, 0)] == IN)
#elif defined(REACH_WEIGHT)
/* Must fail: the victim uses its higher weight. */
#define UNREACHED(a) !(a == victim && lease[a] && used[a] == 2)
#elif defined(REACH_LONG)
/* Must fail: a lease by the longer period, of two nodes that both have a share. */
#define UNREACHED(a) !(lease[a] > LEASE && level[AT(a, 1 - (a))] == IN)
#else
#define UNREACHED(a) 1
#endif

inline forget(a, b)
{
	grant[AT(a, b)] = 0;
	echo_age[AT(a, b)] = OLD
}

/* Read what b announced. take: a may give it a share now. */
inline read_one(a, b, take)
{
	READ_VOTE(a, b);
	READ_PERIOD(a, b);
	if
	:: arrived[AT(a, b)] == 1 -> level[AT(a, b)] = OUT
	:: arrived[AT(a, b)] > 1 ->
		weight[AT(a, b)] = arrived[AT(a, b)] - 1;
		silent[AT(a, b)] = 0;
		if
		:: level[AT(a, b)] == OUT -> level[AT(a, b)] = HEARD /* fault: one way */
		:: else
		fi;
		if
		:: take && level[AT(a, b)] == HEARD && echo_age[AT(a, b)] < LEASE_FROM(a, b) -> level[AT(a, b)] = IN
		:: else
		fi
	:: arrived[AT(a, b)] == 0 && level[AT(a, b)] != OUT ->
		silent[AT(a, b)]++;
		if
		:: silent[AT(a, b)] >= TAKEOVER_FROM(a, b) -> level[AT(a, b)] = OUT
		:: else
		fi
	:: else
	fi;
	arrived[AT(a, b)] = 0;
	/* Values that have no effect any more must not make different states. */
	if
	:: level[AT(a, b)] == OUT -> silent[AT(a, b)] = 0; weight[AT(a, b)] = 0; forget(a, b)
	:: level[AT(a, b)] == IN && (!grant[AT(a, b)] || waited[a] + 1 < TAKEOVER) -> /* fault: needs grant */
		forget(a, b)
	:: else
	fi
}

/* Ask for a share; with QUORUM while at least half of the members are there. */
inline ask(a, may_ask)
{
	there = 1;
	for (j : 0 .. NODES - 1) {
		if
		:: j != a && ((waited[a] -> level[AT(a, j)] != OUT : heard_age[AT(a, j)] < OLD) || VOTE(a, j)) -> there++
		:: else
		fi
	}
	if
	:: !MAY_ASK(there) || !may_ask -> waited[a] = 0
	:: MAY_ASK(there) && may_ask && waited[a] < READY ->
		waited[a]++;
		/* A wait that is over does not begin again by a longer period. */
		waited[a] = (waited[a] >= READY_OF(a) -> READY : waited[a])
	:: else
	fi;
	there = 0; j = 0
}

/* The own weight is the least of the grants; the lease counts from the oldest of the echoes. */
inline apply(a)
{
	used[a] = (waited[a] == READY -> wish[a] : 0);
	lease[a] = LEASE_ALONE(a);
	for (j : 0 .. NODES - 1) {
		if
		:: j != a && level[AT(a, j)] != OUT ->
			if
			:: grant[AT(a, j)] < used[a] -> used[a] = grant[AT(a, j)] /* fault: grants */
			:: else
			fi;
			if
			:: echo_age[AT(a, j)] + lease[a] > LEASE_FROM(a, j) ->
				lease[a] = (echo_age[AT(a, j)] < LEASE_FROM(a, j) -> LEASE_FROM(a, j) - echo_age[AT(a, j)] : 0) /* fault: echo */
			:: else
			fi
		:: else
		fi
	}
	lease[a] = (used[a] -> lease[a] : 0);
	j = 0
}

/* A raised wish needs grants that answer it: older ones count no further than what is used. */
inline raise(a)
{
	for (j : 0 .. NODES - 1) {
		if
		:: grant[AT(a, j)] > used[a] -> grant[AT(a, j)] = used[a] /* fault: stale grant */
		:: else
		fi
	}
	j = 0
}

inline act(a, take, may_ask)
{
	for (j : 0 .. NODES - 1) {
		if
		:: j != a -> read_one(a, j, take)
		:: else
		fi
	}
	waited[a] = (stood[a] >= LEASE_ALONE(a) -> 0 : waited[a]); /* fault: no new wait */
	stood[a] = 0;
	ask(a, may_ask);
	apply(a);
	assert(!OVERLAP(a, (a + 1) % NODES) && !OVERLAP(a, (a + NODES - 1) % NODES));
	assert(UNREACHED(a));
#ifdef REACH_GIVE_BACK
	if
	:: a != victim && down[victim] && lease[a] && level[AT(a, victim)] == OUT -> taken = 1
	:: else
	fi;
#endif
	j = 0
}

inline deliver(a, b)
{
	arrived[AT(b, a)] = 1 + (waited[a] == 0 -> 0 : (used[a] > wish[a] -> used[a] : wish[a]));
	heard_age[AT(b, a)] = 0;
	echo_age[AT(b, a)] = heard_age[AT(a, b)];
	SAY(b, a, heard_age[AT(a, b)]);
	SAY_PERIOD(a, b);
	grant[AT(b, a)] = (echo_age[AT(b, a)] < OLD -> HAS_SHARE(a, b) : 0); /* fault: early grant */
	if
	:: lossy_pair == PAIR(a, b) -> lost = 0; lossy_pair = 0
	:: else
	fi
}

inline send(a, b)
{
	if
	:: down[b] || CUT(a, b)
	:: !down[b] && !CUT(a, b) -> d_step { deliver(a, b) }
	:: !down[b] && !CUT(a, b) && MAY_LOSE(a, b) ->
		d_step {
			printf("  lost: %d to %d\n", a, b);
			lost++; lossy_pair = PAIR(a, b)
		}
	fi
}

inline announce(a)
{
	printf("%d: levels %d %d %d, waited %d, used %d, lease %d\n", a, level[AT(a, 0)], level[AT(a, 1)],
	       level[AT(a, NODES - 1)], waited[a], used[a], lease[a]);
	send(a, (a + 1) % NODES);
#if NODES > 2
	send(a, (a + 2) % NODES)
#endif
}

/* A run begins: every other node is taken to be alive, the lease of the former run ends, its echoes too. */
inline begin(a)
{
	lease[a] = 0; used[a] = 0; waited[a] = 0; stood[a] = 0;
	BEGIN_PERIOD(a);
	for (j : 0 .. NODES - 1) {
		if
		:: j != a ->
			level[AT(a, j)] = IN;
			weight[AT(a, j)] = 1; silent[AT(a, j)] = 0; arrived[AT(a, j)] = 0;
			forget(a, j);
			SAY(a, j, OLD); FORGET_VOTE(a, j);
			SAY(j, a, OLD); FORGET_VOTE(j, a);
			FORGET_PERIOD(a, j);
			heard_age[AT(a, j)] = OLD; heard_age[AT(j, a)] = OLD
		:: else
		fi
	}
	j = 0
}

/*
 * Its kernel goes on. deaf: what arrived meanwhile is lost. Silence while the node did not listen does not count; a
 * node that stood still as long as a lease begins to ask anew.
 */
inline stand(a, deaf)
{
	printf("%d stands still\n", a);
	stood[a] = (stood[a] < OLD -> stood[a] + 1 : OLD);
	waited[a] = (waited[a] && waited[a] < READY -> waited[a] + 1 : waited[a]);
	for (j : 0 .. NODES - 1) {
		SAY(a, j, (deaf -> OLD : said_age[AT(a, j)]));
		arrived[AT(a, j)] = (deaf -> 0 : arrived[AT(a, j)]);
		silent[AT(a, j)] = 0 /* fault: stood */
	}
	j = 0
}

#ifdef PERIODS
/* A reload. */
inline change_period(a)
{
	printf("%d changes its period, longer: %d\n", a, 1 - slow[a]);
	if
	:: slow[a] -> waited[a] = (waited[a] && waited[a] < READY -> 1 : waited[a])
	:: !slow[a] ->
		short_word[AT(1 - (a), a)] = 1;
		short_echo[AT(a, 1 - (a))] = 1
	fi;
	slow[a] = 1 - slow[a];
	since[a] = (slow[a] -> 0 : TAKEOVER)
}
#endif

inline take_turn(a)
{
	if
	:: !down[a] -> d_step { act(a, 1, 1) }; announce(a)
#ifdef HOLD
	:: !down[a] -> d_step { act(a, 0, 1) }; announce(a)
#endif
#ifdef REFUSED
	:: !down[a] -> d_step { act(a, 1, 0) }; announce(a)
#endif
#ifdef WEIGHTS
	:: !down[a] && a == victim && wish[a] == 2 -> d_step { wish[a] = 1; act(a, 1, 1) }; announce(a)
	:: !down[a] && a == victim && wish[a] == 1 -> d_step { wish[a] = 2; raise(a); act(a, 1, 1) }; announce(a)
#endif
#ifdef PERIODS
	:: !down[a] -> d_step { change_period(a); act(a, 1, 1) }; announce(a)
#endif
	:: !down[a] && a == victim -> d_step { stand(a, 0) }
#ifdef DEAF
	:: !down[a] && a == victim -> d_step { stand(a, 1) }
#endif
#ifdef PAUSE
	:: !down[a] && a == victim -> d_step { stand(a, 1); paused[a] = 1 }
#endif
	:: !down[a] && a == victim -> d_step { printf("%d starts anew\n", a); begin(a) }
	:: !down[a] && a == victim -> d_step { printf("%d dies\n", a); begin(a); lease[a] = 0; down[a] = 1 }
	:: down[a] -> d_step { printf("%d boots\n", a); begin(a); down[a] = 0 }
	:: down[a]
	fi;
	turn++
}

inline grow_older(a)
{
#ifdef PAUSE
	lease[a] = (paused[a] && lease[a] -> lease[a] + 1 : lease[a]);
	paused[a] = 0;
#endif
	lease[a] = (lease[a] -> lease[a] - 1 : 0);
	COUNT_PERIOD(a);
	for (j : 0 .. NODES - 1) {
		heard_age[AT(a, j)] = (heard_age[AT(a, j)] < OLD -> heard_age[AT(a, j)] + 1 : OLD);
		AGE_VOTE(a, j);
		echo_age[AT(a, j)] = (echo_age[AT(a, j)] < OLD -> echo_age[AT(a, j)] + 1 : OLD);
		grant[AT(a, j)] = (echo_age[AT(a, j)] < OLD -> grant[AT(a, j)] : 0)
	}
	j = 0
}

inline tick()
{
	printf("--\n");
	grow_older(0); grow_older(1);
#if NODES > 2
	grow_older(2);
#endif
	turn = 0
}

active proctype cluster()
{
	if
	:: victim = 0
	:: victim = 1
#if NODES > 2
	:: victim = 2
#endif
	fi;
end:
	do
	:: turn == 0 -> atomic { take_turn(0) }
	:: turn == 1 -> atomic { take_turn(1) }
#if NODES > 2
	:: turn == 2 -> atomic { take_turn(2) }
#endif
	:: turn == NODES -> d_step { tick() }
#ifdef PARTITION
	:: turn == NODES -> cut = 1 - cut
#endif
	od
}
