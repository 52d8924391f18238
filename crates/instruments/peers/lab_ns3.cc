/* ns-3 as a peer of `cellgate bench lab`: cells of 53 octets from a source over a link to a switch,
 * and over a link to a sink, both links saturated.
 *
 *   g++ -O3 -o lab_ns3 crates/instruments/peers/lab_ns3.cc -lns3-point-to-point -lns3-network -lns3-core
 *
 * It is not part of the build: ns-3 (Debian: libns3-dev) need not be there.
 *
 *   lab_ns3 devices|events CELLS BIT_S DELAY_PS QUEUE_CELLS
 *
 * devices: packets over ns-3's own point-to-point devices and channels, with a drop-tail queue at
 * the switch. events: cells in memory and nothing of ns-3 but its scheduler. A line on standard
 * input is a round of CELLS; the answer on standard output is the nanoseconds of CPU time that it
 * took, and how many cells the sink got.
 */
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <queue>

#include <ns3/drop-tail-queue.h>
#include <ns3/node.h>
#include <ns3/point-to-point-channel.h>
#include <ns3/point-to-point-net-device.h>
#include <ns3/simulator.h>
#include <ns3/string.h>

using namespace ns3;

static const uint64_t CELL_OCTETS = 53;
/* What ns-3's device puts before each packet. */
static const uint32_t PPP_OCTETS = 2;
static const uint16_t IPV4 = 0x0800;
static const uint64_t PS_PER_S = 1000000000000;

static uint64_t cells, bit_s, delay_ps, queue_cells;
static uint64_t sent, received;

/* The time at which cell n is due on a line that is never idle. */
static Time Due(uint64_t n)
{
	unsigned __int128 ps = static_cast<unsigned __int128>(n) * CELL_OCTETS * 8 * PS_PER_S;

	return PicoSeconds(static_cast<uint64_t>(ps / bit_s));
}

namespace devices
{
static Ptr<PointToPointNetDevice> out;

static Ptr<PointToPointNetDevice> DeviceOf(Ptr<Node> node)
{
	Ptr<PointToPointNetDevice> device = CreateObject<PointToPointNetDevice>();
	Ptr<DropTailQueue<Packet>> queue = CreateObject<DropTailQueue<Packet>>();

	queue->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, queue_cells));
	device->SetQueue(queue);
	device->SetDataRate(DataRate(bit_s));
	device->SetAddress(Mac48Address::Allocate());
	node->AddDevice(device);
	return device;
}

static Ptr<PointToPointNetDevice> Link(Ptr<Node> from, Ptr<Node> to)
{
	Ptr<PointToPointNetDevice> one = DeviceOf(from), other = DeviceOf(to);
	Ptr<PointToPointChannel> channel = CreateObject<PointToPointChannel>();

	channel->SetAttribute("Delay", TimeValue(PicoSeconds(delay_ps)));
	one->Attach(channel);
	other->Attach(channel);
	return one;
}

static bool Forward(Ptr<NetDevice>, Ptr<const Packet> cell, uint16_t protocol, const Address &)
{
	return out->Send(cell->Copy(), out->GetBroadcast(), protocol);
}

static bool Take(Ptr<NetDevice>, Ptr<const Packet> cell, uint16_t, const Address &)
{
	received += cell->GetSize() == CELL_OCTETS - PPP_OCTETS;
	return true;
}

static void Emit(PointToPointNetDevice *device)
{
	device->Send(Create<Packet>(CELL_OCTETS - PPP_OCTETS), device->GetBroadcast(), IPV4);
	if (++sent < cells)
		Simulator::Schedule(Due(sent) - Simulator::Now(), &Emit, device);
}

static Ptr<NetDevice> Other(Ptr<PointToPointNetDevice> device)
{
	Ptr<Channel> channel = device->GetChannel();

	return channel->GetDevice(channel->GetDevice(0) == device ? 1 : 0);
}

static void Start()
{
	Ptr<Node> source = CreateObject<Node>(), relay = CreateObject<Node>();
	Ptr<Node> sink = CreateObject<Node>();
	Ptr<PointToPointNetDevice> first = Link(source, relay);

	out = Link(relay, sink);
	Other(first)->SetReceiveCallback(MakeCallback(&Forward));
	Other(out)->SetReceiveCallback(MakeCallback(&Take));
	Simulator::Schedule(Time(0), &Emit, PeekPointer(first));
}

static void End()
{
	out = nullptr;
}
} // namespace devices

namespace events
{
struct Cell {
	uint8_t octets[CELL_OCTETS];
};

static std::queue<Cell> waiting;
static bool busy;

static void Take(Cell cell)
{
	received += cell.octets[4] == 0x55;
}

static void Leave()
{
	Time delay = PicoSeconds(delay_ps);

	Simulator::Schedule(delay, &Take, waiting.front());
	waiting.pop();
	busy = !waiting.empty();
	if (busy)
		Simulator::Schedule(Due(1), &Leave);
}

static void Arrive(Cell cell)
{
	if (waiting.size() >= queue_cells)
		return;
	waiting.push(cell);
	if (!busy) {
		busy = true;
		Simulator::Schedule(Due(1), &Leave);
	}
}

static void Emit()
{
	Cell cell;

	memset(cell.octets, 0x55, sizeof(cell.octets));
	Simulator::Schedule(Due(1) + PicoSeconds(delay_ps), &Arrive, cell);
	if (++sent < cells)
		Simulator::Schedule(Due(sent) - Simulator::Now(), &Emit);
}

static void Start()
{
	busy = false;
	Simulator::Schedule(Time(0), &Emit);
}
} // namespace events

static uint64_t CpuNs()
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return static_cast<uint64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

int main(int argc, char **argv)
{
	uint64_t numbers[4];
	char line[64];

	for (int i = 0; i < 4; i++)
		numbers[i] = i + 2 < argc ? strtoull(argv[i + 2], nullptr, 10) : 0;
	bool by_device = argc == 6 && strcmp(argv[1], "devices") == 0;

	if (argc != 6 || !(by_device || strcmp(argv[1], "events") == 0) || numbers[1] == 0) {
		fprintf(stderr, "lab_ns3 devices|events CELLS BIT_S DELAY_PS QUEUE_CELLS\n");
		return 2;
	}
	cells = numbers[0];
	bit_s = numbers[1];
	delay_ps = numbers[2];
	queue_cells = numbers[3];
	Time::SetResolution(Time::PS);

	while (fgets(line, sizeof(line), stdin)) {
		sent = received = 0;
		uint64_t from = CpuNs();

		if (by_device)
			devices::Start();
		else
			events::Start();
		Simulator::Run();
		Simulator::Destroy();
		devices::End();
		printf("%" PRIu64 " %" PRIu64 "\n", CpuNs() - from, received);
		fflush(stdout);
	}
	return 0;
}
