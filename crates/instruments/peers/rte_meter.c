/* DPDK's two-rate three-colour marker as a peer of `cellgate bench police`: 1,024 trTCM meters that
 * share a profile, checked in turn.
 *
 *   cc -O3 -o rte_meter crates/instruments/peers/rte_meter.c \
 *       $(pkg-config --cflags libdpdk) -march=native -lrte_meter -lrte_eal
 *
 * It is not part of the build: DPDK need not be there.
 *
 *   rte_meter CHECKS PEAK_CELL_S SUSTAINED_CELL_S TOLERANCE_NS CHECK_NS STAGGER
 *
 * Every 64 checks the time advances by 64 CHECK_NS. If STAGGER is 1, the meters begin with
 * different parts of a cell already charged. A line on standard input is a round of CHECKS; the
 * answer on standard output is the ticks of the time stamp counter that it took, and how many
 * checks came out green. A cell counts as 53 bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_meter.h>

#define METERS 1024
#define CHECKS_A_CLOCK 64
#define CELL_BYTES 53

static struct rte_meter_trtcm meters[METERS];

static uint64_t ticks(uint64_t ns)
{
	return ns * (rte_get_tsc_hz() / 1000) / (NS_PER_S / 1000);
}

/* The bucket that lets through what GCRA(1 / cell_s, tolerance_ns) does: the cell that is due, and
 * those that may come before their time. */
static uint64_t bucket_bytes(uint64_t cell_s, uint64_t tolerance_ns)
{
	return CELL_BYTES * (1 + tolerance_ns * cell_s / NS_PER_S);
}

static int init(void)
{
	/* No huge pages, no devices, no files: what is wanted is the rate of the counter. */
	char *args[] = {"rte_meter",	  "--no-huge",	"--no-pci",	"--no-shconf",
			"--no-telemetry", "-m",		"16",		"--log-level=4"};

	return rte_eal_init(sizeof(args) / sizeof(args[0]), args);
}

static int configure(struct rte_meter_trtcm_profile *profile, uint64_t peak_cell_s,
		     uint64_t sustained_cell_s, uint64_t tolerance_ns, uint64_t stagger)
{
	struct rte_meter_trtcm_params params = {
		.cir = sustained_cell_s * CELL_BYTES,
		.pir = peak_cell_s * CELL_BYTES,
		.cbs = bucket_bytes(sustained_cell_s, tolerance_ns),
		.pbs = bucket_bytes(peak_cell_s, tolerance_ns),
	};
	int error = rte_meter_trtcm_profile_config(profile, &params);

	for (uint64_t i = 0; i < METERS && !error; i++) {
		error = rte_meter_trtcm_config(&meters[i], profile);
		/* Time as it is told below begins at 0. */
		meters[i].time_tc = meters[i].time_tp = 0;
		/* Coprime with their number: all parts occur. */
		meters[i].tc -= stagger * CELL_BYTES * (i * 389 % METERS) / METERS;
		meters[i].tp -= stagger * CELL_BYTES * (i * 389 % METERS) / METERS;
	}
	return error;
}

int main(int argc, char **argv)
{
	struct rte_meter_trtcm_profile profile;
	uint64_t numbers[6];
	char line[64];

	for (int i = 0; i < 6; i++)
		numbers[i] = i + 1 < argc ? strtoull(argv[i + 1], NULL, 10) : 0;
	if (argc != 7 || numbers[0] == 0) {
		fprintf(stderr, "rte_meter CHECKS PEAK_CELL_S SUSTAINED_CELL_S TOLERANCE_NS "
				"CHECK_NS STAGGER\n");
		return 2;
	}
	if (init() < 0 || configure(&profile, numbers[1], numbers[2], numbers[3], numbers[5])) {
		fprintf(stderr, "rte_meter: DPDK refuses\n");
		return 1;
	}
	uint64_t checks = numbers[0];
	uint64_t step = ticks(CHECKS_A_CLOCK * numbers[4]);
	uint64_t now = 0;

	while (fgets(line, sizeof(line), stdin)) {
		uint64_t green = 0;
		uint64_t from = rte_rdtsc();

		for (uint64_t i = 0; i < checks; i++) {
			if (i % CHECKS_A_CLOCK == 0)
				now += step;
			green += rte_meter_trtcm_color_blind_check(&meters[i % METERS], &profile,
								   now, CELL_BYTES) ==
				 RTE_COLOR_GREEN;
		}
		printf("%" PRIu64 " %" PRIu64 "\n", rte_rdtsc() - from, green);
		fflush(stdout);
	}
	return 0;
}
