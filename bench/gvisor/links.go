// The links that may join the two stacks. All of them leave every checksum to the stacks, because
// that is what the benchmark compares; gVisor's own veth pair is left out because it tells the
// receiver not to verify checksums. Called by main.go only.

package main

import (
	"context"
	"fmt"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/pipe"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

const (
	addrA = tcpip.LinkAddress("\x02\x00\x00\x00\x00\x01")
	addrB = tcpip.LinkAddress("\x02\x00\x00\x00\x00\x02")
)

// queuePackets is deep enough that a full window never overflows it.
const queuePackets = 16384

// batchPipe is gVisor's pipe with its software segmentation: TCP hands down up to 64 KB at once and
// the stack cuts it into MTU-sized packets just above the link, so that routing and locking are
// paid once per batch. The packets on the link are the same.
type batchPipe struct {
	*pipe.Endpoint
}

// GSOMaxSize implements stack.GSOEndpoint.
func (batchPipe) GSOMaxSize() uint32 { return stack.GVisorGSOMaxSize }

// SupportedGSO implements stack.GSOEndpoint.
func (batchPipe) SupportedGSO() stack.SupportedGSO { return stack.GVisorGSOSupported }

// newLink returns the two ends of the link called name.
func newLink(name string, mtu uint32, gso bool) (stack.LinkEndpoint, stack.LinkEndpoint, error) {
	switch name {
	case "pipe":
		a, b := pipe.New(addrA, addrB, mtu)
		if gso {
			return batchPipe{a}, batchPipe{b}, nil
		}
		return a, b, nil
	case "channel":
		a := channel.New(queuePackets, mtu, addrA)
		b := channel.New(queuePackets, mtu, addrB)
		if gso {
			a.SupportedGSOKind = stack.GVisorGSOSupported
			b.SupportedGSOKind = stack.GVisorGSOSupported
		}
		go pump(a, b)
		go pump(b, a)
		return a, b, nil
	}
	return nil, nil, fmt.Errorf("link %q: use pipe or channel", name)
}

// pump carries packets one way between two channel endpoints until the process ends.
func pump(from, to *channel.Endpoint) {
	for {
		pkt := from.ReadContext(context.Background())
		if pkt == nil {
			return
		}
		fresh := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: pkt.ToBuffer()})
		to.InjectInbound(pkt.NetworkProtocolNumber, fresh)
		fresh.DecRef()
		pkt.DecRef()
	}
}
