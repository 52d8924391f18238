/* DPDK's ring as a peer of `cellgate bench queue`: elements of 16 bytes from a producer on one CPU
 * to a consumer on another, in bulks.
 *
 *   cc -O3 -o rte_ring crates/instruments/peers/rte_ring.c \
 *       $(pkg-config --cflags libdpdk) -march=native -lrte_ring -lrte_eal
 *
 * It is not part of the build: DPDK need not be there.
 *
 *   rte_ring BULK ELEMENTS SLOTS CONSUMER_CPU PRODUCER_CPU
 *
 * A line on standard input is a round of ELEMENTS, whole bulks; the answer on standard output is
 * the ticks of the time stamp counter from the word to the producer until the consumer has the
 * last, and the sum of all words of the elements. The ring holds SLOTS less one element.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_pause.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#define BULK_MAX 32

struct element {
	uint64_t number;
	uint64_t threefold;
};

_Static_assert(sizeof(struct element) == 16, "an element is as long as a descriptor");

enum { READY = 1, GO = 2 };

static struct rte_ring *ring;
static uint64_t bulk, elements;
static _Atomic uint32_t word;

static void await_word(uint32_t wanted)
{
	while (atomic_load_explicit(&word, memory_order_acquire) != wanted)
		rte_pause();
}

static int produce(void *unused)
{
	struct element slots[BULK_MAX];

	(void)unused;
	atomic_store_explicit(&word, READY, memory_order_release);
	await_word(GO);
	for (uint64_t number = 1; number <= elements; number += bulk) {
		for (uint64_t i = 0; i < bulk; i++) {
			slots[i].number = number + i;
			slots[i].threefold = 3 * (number + i);
		}
		while (!rte_ring_sp_enqueue_bulk_elem(ring, slots, sizeof(slots[0]), bulk, NULL))
			rte_pause();
	}
	return 0;
}

static uint64_t consume(void)
{
	struct element slots[BULK_MAX];
	uint64_t sum = 0;

	for (uint64_t done = 0; done < elements; done += bulk) {
		while (!rte_ring_sc_dequeue_bulk_elem(ring, slots, sizeof(slots[0]), bulk, NULL))
			rte_pause();
		for (uint64_t i = 0; i < bulk; i++)
			sum += slots[i].number + slots[i].threefold;
	}
	return sum;
}

static int init(char *consumer_cpu, char *producer_cpu)
{
	char cpus[64];
	/* No huge pages, no devices, no files: what is wanted is two threads and a ring. */
	char *args[] = {"rte_ring",	  "--no-huge",	"--no-pci", "--no-shconf",
			"--no-telemetry", "-m",		"16",	    "--log-level=4",
			"-l",		  cpus,		"--main-lcore", consumer_cpu};

	snprintf(cpus, sizeof(cpus), "%s,%s", consumer_cpu, producer_cpu);
	return rte_eal_init(sizeof(args) / sizeof(args[0]), args);
}

int main(int argc, char **argv)
{
	char line[64];
	uint64_t slots = argc == 6 ? strtoull(argv[3], NULL, 10) : 0;

	bulk = argc == 6 ? strtoull(argv[1], NULL, 10) : 0;
	elements = argc == 6 ? strtoull(argv[2], NULL, 10) : 0;
	if (slots == 0 || bulk == 0 || bulk > BULK_MAX || elements % bulk != 0) {
		fprintf(stderr, "rte_ring BULK ELEMENTS SLOTS CONSUMER_CPU PRODUCER_CPU\n");
		return 2;
	}
	unsigned int producer = strtoul(argv[5], NULL, 10);

	if (init(argv[4], argv[5]) < 0 ||
	    !(ring = rte_ring_create_elem("descriptors", sizeof(struct element), slots, SOCKET_ID_ANY,
					  RING_F_SP_ENQ | RING_F_SC_DEQ))) {
		fprintf(stderr, "rte_ring: DPDK refuses\n");
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		atomic_store(&word, 0);
		if (rte_eal_remote_launch(produce, NULL, producer) != 0)
			return 1;
		await_word(READY);

		uint64_t from = rte_rdtsc();

		atomic_store_explicit(&word, GO, memory_order_release);
		uint64_t sum = consume();
		uint64_t ticks = rte_rdtsc() - from;

		rte_eal_wait_lcore(producer);
		printf("%" PRIu64 " %" PRIu64 "\n", ticks, sum);
		fflush(stdout);
	}
	return 0;
}
