// gvisor-bench moves bytes between two gVisor netstacks in one process and prints one line of JSON:
// {"bytes", "wall_s", "cpu_s", "segments", "retransmits", "settings"}. wirespeed-bench builds and
// runs it; it can be run by hand to sweep the settings. The stacks compute and verify checksums;
// the application copies at both ends. CPU time is that of the whole process, garbage collector
// included, while bytes move.

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

var (
	mtu     = flag.Uint("mtu", 1500, "MTU of the link, IP header included")
	seconds = flag.Float64("seconds", 2, "how long the writer writes")
	link    = flag.String("link", "pipe", "pipe or channel")
	gso     = flag.Bool("gso", false, "software segmentation above the link")
	buffer  = flag.Int("buffer", 4<<20, "send and receive buffer, bytes")
	unit    = flag.Int("unit", 128<<10, "bytes of each write and read")
	control = flag.String("cc", "cubic", "congestion control: reno or cubic")
	gogc    = flag.Int("gogc", 400, "garbage collector percentage")
)

const (
	nic  = tcpip.NICID(1)
	port = 5001
)

type result struct {
	Bytes       uint64  `json:"bytes"`
	WallS       float64 `json:"wall_s"`
	CPUS        float64 `json:"cpu_s"`
	Segments    uint64  `json:"segments"`
	Retransmits uint64  `json:"retransmits"`
	Settings    string  `json:"settings"`
}

func main() {
	flag.Parse()
	debug.SetGCPercent(*gogc)
	out, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gvisor-bench:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		os.Exit(1)
	}
}

// run joins two stacks, connects them and moves bytes for the requested time.
func run() (*result, error) {
	linkA, linkB, err := newLink(*link, uint32(*mtu), *gso)
	if err != nil {
		return nil, err
	}
	a, b := tcpip.AddrFrom4([4]byte{10, 0, 0, 1}), tcpip.AddrFrom4([4]byte{10, 0, 0, 2})
	stackA, err := newStack(linkA, a)
	if err != nil {
		return nil, err
	}
	stackB, err := newStack(linkB, b)
	if err != nil {
		return nil, err
	}
	to := tcpip.FullAddress{NIC: nic, Addr: b, Port: port}
	listener, err := gonet.ListenTCP(stackB, to, ipv4.ProtocolNumber)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	type accepted struct {
		conn io.ReadCloser
		err  error
	}
	arrived := make(chan accepted, 1)
	go func() {
		conn, err := listener.Accept()
		arrived <- accepted{conn, err}
	}()
	writer, err := gonet.DialTCP(stackA, to, ipv4.ProtocolNumber)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	reader := <-arrived
	if reader.err != nil {
		return nil, fmt.Errorf("accept: %w", reader.err)
	}
	out, err := move(writer, reader.conn)
	if err != nil {
		return nil, err
	}
	out.Segments = stackA.Stats().TCP.SegmentsSent.Value()
	out.Retransmits = stackA.Stats().TCP.Retransmits.Value()
	out.Settings = fmt.Sprintf("%s link, mtu %d, gso %v, buffers %d KiB, units %d KiB, %s, "+
		"SACK, GOGC %d, GOMAXPROCS %d, %d retransmits", *link, *mtu, *gso, *buffer>>10, *unit>>10, *control,
		*gogc, runtime.GOMAXPROCS(0), out.Retransmits)
	return out, nil
}

// move writes for the requested time and reads until end of file.
func move(writer *gonet.TCPConn, reader io.ReadCloser) (*result, error) {
	data := make([]byte, *unit)
	for i := range data {
		data[i] = byte(i * 31)
	}
	runtime.GC()
	start, before := time.Now(), cpuSeconds()
	failed := make(chan error, 1)
	go func() {
		defer writer.CloseWrite()
		for time.Since(start).Seconds() < *seconds {
			if _, err := writer.Write(data); err != nil {
				failed <- fmt.Errorf("write: %w", err)
				return
			}
		}
		failed <- nil
	}()
	var out result
	sink := make([]byte, *unit)
	for {
		n, err := reader.Read(sink)
		out.Bytes += uint64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
	}
	out.WallS, out.CPUS = time.Since(start).Seconds(), cpuSeconds()-before
	return &out, <-failed
}

// newStack makes a stack with one interface, one address and a default route.
func newStack(link stack.LinkEndpoint, addr tcpip.Address) (*stack.Stack, error) {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	if err := s.CreateNIC(nic, link); err != nil {
		return nil, fmt.Errorf("create nic: %s", err)
	}
	with := addr.WithPrefix()
	protocol := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: with}
	if err := s.AddProtocolAddress(nic, protocol, stack.AddressProperties{}); err != nil {
		return nil, fmt.Errorf("add address: %s", err)
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	sack := tcpip.TCPSACKEnabled(true)
	cc := tcpip.CongestionControlOption(*control)
	snd := tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: *buffer, Max: 2 * *buffer}
	rcv := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: *buffer, Max: 2 * *buffer}
	for _, option := range []tcpip.SettableTransportProtocolOption{&sack, &cc, &snd, &rcv} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			return nil, fmt.Errorf("option %T: %s", option, err)
		}
	}
	return s, nil
}

// cpuSeconds is the user and system time of this process.
func cpuSeconds() float64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(use.Utime) + seconds(use.Stime)
}
