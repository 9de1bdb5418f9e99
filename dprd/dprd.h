/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dprd.h - the map of dprd: which module starts which, which thread does what, and the way of a packet.
 *
 * Processes and threads
 *
 *   main.c            opens all modules in order, and closes them in mirror order
 *     main thread     one sd-event loop: tick.c every TICK_MS, the control socket, signals
 *     worker threads  queue/queue.c, one for each group of NFQUEUE queues: packets in batches
 *     counters        loadcast/sample.c, cluster/translated_counter.c: threads of the lowest priority, without the lock
 *     standby process queue/standby.c, shares the workers' queues; acts while they stand still
 *     BPF programs    bpf/, on the interfaces; loaded by fastpath/, told by plane/; they outlive dprd
 *   loadcast          another program; writes the load table that cluster/asks.c reads
 *
 * The lock
 *
 *   state.h has struct dprd; its lock guards the second half of it. A thread holds it to decide a batch, never while it
 *   waits for the kernel. mutex_assert_held() stands where a function needs it (checked by make DEBUG=1).
 *
 * The way of a SYN, plane nfqueue: the worker's thread, unless it says otherwise
 *
 *   rules/rules.c     the kernel's rules, made once: which packets are queued
 *   queue/queue.c     receive(): a batch from host/nfqueue.c, no lock
 *   queue/path.c      path_batch(): the order of all that follows
 *   core/packet/      packet_parse(): what is in these bytes
 *   -- lock --
 *   cluster/asks.c    what decide() may know: cluster/view.c, load table, flows, own load
 *   core/decide/      decide_new(), by core/flow/ and core/policy/: serve, forward, pass or drop, and why
 *   cluster/backend.c backend_choose(): a real server behind this node
 *   cluster/ways.c    the way to the node that was chosen
 *   -- unlock --
 *   host/socket_lookup.c  a connection that this node has already stays here
 *   host/flowset.c    the kernel learns the flow, before its first SYN leaves (write-ahead)
 *   queue/path_send.c sends it by host/tunnel.c: a tunnel, or directly to the hardware address
 *   -- lock --
 *   queue/path_commit.c   the verdict is final: counted, and remembered for dprctl why
 *   -- unlock --
 *   queue/queue.c     answer(): verdicts to the kernel
 *
 * Its later packets: the kernel's set queues them (FORWARD), or the BPF programs send them on without dprd.
 * On the serving node: queue/path_tunnel.c takes it out of the tunnel, or bpf/serving.h.
 *
 * The way of a SYN, plane bpf: bpf/plain.h, bpf/entry.h on the entry node. With Decide=kernel the programs choose by
 * a schedule that plane/decide.c makes ahead; otherwise they queue the SYN, and it goes the way above.
 *
 * The clock: tick.c says what happens when; upkeep/ does it (expire, refill, keep_rules, presence, renew).
 * A reload: SIGHUP or control/change.c, then upkeep/reload.c: each module's ..._reconfigure(), in order.
 */
#ifndef DPRD_DPRD_H
#define DPRD_DPRD_H

struct dprd;

/* tick.c: starts the clock. 0 or -errno. */
int tick_start(struct dprd *d);

#endif
