package discovery

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dnsServer is a small DNS server on loopback, UDP and TCP on one port, that answers
// from maps. An answer that does not fit into 512 bytes is truncated over UDP.
type dnsServer struct {
	mu      sync.Mutex
	a       map[string][]netip.Addr
	srv     map[string][]net.SRV
	mute    bool // answers nothing
	refuse  bool // SERVFAIL
	tcpSeen int
	served  sync.Cond // signals each answer
	answers int

	addr string
}

func newDNSServer(t *testing.T) *dnsServer {
	t.Helper()
	s := &dnsServer{a: map[string][]netip.Addr{}, srv: map[string][]net.SRV{}}
	s.served.L = &s.mu
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	require.NoError(t, err)
	s.addr = tcp.Addr().String()
	var group sync.WaitGroup
	group.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := s.answer(buf[:n], 512); out != nil {
				_, _ = udp.WriteTo(out, from)
			}
		}
	})
	group.Go(func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			group.Go(func() { s.serveTCP(c) })
		}
	})
	t.Cleanup(func() { udp.Close(); tcp.Close(); group.Wait() })
	return s
}

func (s *dnsServer) serveTCP(c net.Conn) {
	defer c.Close()
	s.mu.Lock()
	s.tcpSeen++
	s.mu.Unlock()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		if out := s.answer(query, 65535); out != nil {
			_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
		}
	}
}

// answer builds a response of at most limit bytes, or a truncated one.
func (s *dnsServer) answer(query []byte, limit int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute || len(query) < 17 {
		return nil
	}
	s.answers++
	s.served.Broadcast()
	end := 12 + bytes.IndexByte(query[12:], 0) + 5
	question := query[12:end]
	var labels []string
	for i := 0; question[i] != 0; i += int(question[i]) + 1 {
		labels = append(labels, string(question[i+1:i+1+int(question[i])]))
	}
	name := strings.ToLower(strings.Join(labels, ".")) + "."
	kind := binary.BigEndian.Uint16(question[len(question)-4:])

	var records [][]byte
	_, isA := s.a[name]
	_, isSRV := s.srv[name]
	for _, addr := range s.a[name] {
		if kind == 1 && addr.Is4() || kind == 28 && addr.Is6() {
			records = append(records, addr.AsSlice())
		}
	}
	for _, r := range s.srv[name] {
		if kind == 33 {
			data := binary.BigEndian.AppendUint16(nil, r.Priority)
			data = binary.BigEndian.AppendUint16(data, r.Weight)
			data = binary.BigEndian.AppendUint16(data, r.Port)
			for _, l := range strings.Split(strings.TrimSuffix(r.Target, "."), ".") {
				data = append(append(data, byte(len(l))), l...)
			}
			records = append(records, append(data, 0))
		}
	}
	build := func(flags uint16, records [][]byte) []byte {
		out := append([]byte(nil), query[:2]...)
		for _, v := range []uint16{flags, 1, uint16(len(records)), 0, 0} {
			out = binary.BigEndian.AppendUint16(out, v)
		}
		out = append(out, question...)
		for _, r := range records {
			out = append(out, 0xc0, 12) // the name of the question
			out = binary.BigEndian.AppendUint16(out, kind)
			out = append(out, 0, 1, 0, 0, 0, 5) // class IN, 5 s
			out = append(binary.BigEndian.AppendUint16(out, uint16(len(r))), r...)
		}
		return out
	}
	const response, truncated, nxdomain, servfail = 0x8180, 0x0200, 3, 2
	if s.refuse {
		return build(response|servfail, nil)
	}
	if !isA && !isSRV {
		return build(response|nxdomain, nil)
	}
	if out := build(response, records); len(out) <= limit {
		return out
	}
	return build(response|truncated, records[:1])
}

// resolver asks only this server. Its connections are closed at the end of the test:
// net.Resolver leaves an abandoned lookup reading until its own timeout of 5 s.
func (s *dnsServer) resolver(t *testing.T) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, s.addr)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return c, err
	}}
}

func (s *dnsServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// wait returns after n more answers.
func (s *dnsServer) wait(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for until := s.answers + n; s.answers < until; {
		s.served.Wait()
	}
}

func TestRealDNSWithTruncatedAnswers(t *testing.T) {
	s := newDNSServer(t)
	var all []netip.Addr
	for i := range 500 {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, byte(i / 250), byte(i % 250)}))
	}
	s.set(func() { s.a["vllm.test."] = all })
	r, err := DNS("http://vllm.test.:8000", WithLookup(s.resolver(t)))
	require.NoError(t, err)
	got := resolve(t, r)
	require.Len(t, got, 500, "the whole answer over TCP, never the part that came over UDP")
	assert.Equal(t, "http://10.0.0.0:8000", got[0].ID)
	assert.Equal(t, "http://10.0.1.249:8000", got[499].ID)
	s.set(func() { assert.Positive(t, s.tcpSeen) })
}

func TestRealDNSFamilies(t *testing.T) {
	s := newDNSServer(t)
	s.set(func() {
		s.a["six.test."] = addrs("fd00::2", "fd00::1")
		s.a["both.test."] = addrs("fd00::1", "10.0.0.1")
	})
	for name, want := range map[string][]string{
		"six.test.":  {"http://[fd00::1]:80", "http://[fd00::2]:80"},
		"both.test.": {"http://10.0.0.1:80"},
	} {
		r, err := DNS("http://"+name, WithLookup(s.resolver(t)))
		require.NoError(t, err)
		assert.Equal(t, want, ids(resolve(t, r)), name)
	}
}

func TestRealDNSErrors(t *testing.T) {
	s := newDNSServer(t)
	r, err := DNS("http://none.test.:1", WithLookup(s.resolver(t)), WithLookupTimeout(time.Minute))
	require.NoError(t, err)
	var dns *net.DNSError
	_, err = r.Resolve(t.Context())
	require.ErrorAs(t, err, &dns)
	assert.True(t, dns.IsNotFound)

	s.set(func() { s.refuse = true })
	_, err = r.Resolve(t.Context())
	require.ErrorAs(t, err, &dns)
	assert.False(t, dns.IsNotFound, "a failing server is not an absent name")

	s.set(func() { s.refuse, s.mute = false, true })
	r, err = DNS("http://none.test.:1", WithLookup(s.resolver(t)), WithLookupTimeout(50*time.Millisecond))
	require.NoError(t, err)
	_, err = r.Resolve(t.Context())
	assert.ErrorContains(t, err, "no answer within 50ms")
}

func TestRealSRV(t *testing.T) {
	s := newDNSServer(t)
	s.set(func() {
		s.srv["_http._tcp.vllm.test."] = []net.SRV{
			{Target: "pod-1.vllm.test.", Port: 8001, Weight: 50}, {Target: "pod-0.vllm.test.", Port: 8000, Weight: 50},
		}
		s.a["pod-0.vllm.test."], s.a["pod-1.vllm.test."] = addrs("127.0.0.1"), addrs("127.0.0.2")
	})
	r, err := SRV("http", "_http._tcp.vllm.test.", WithLookup(s.resolver(t)))
	require.NoError(t, err)
	got := resolve(t, r)
	assert.Equal(t, []string{"http://pod-0.vllm.test:8000", "http://pod-1.vllm.test:8001"}, ids(got))
	assert.Equal(t, "127.0.0.2:8001", got[1].Addr.String())
}

// A watcher over a real resolver and sockets whose name flaps.
func TestRealDNSFlaps(t *testing.T) {
	s := newDNSServer(t)
	s.set(func() { s.a["vllm.test."] = addrs("127.0.0.1", "127.0.0.2") })
	r, err := DNS("http://vllm.test.:1", WithLookup(s.resolver(t)), WithLookupTimeout(100*time.Millisecond))
	require.NoError(t, err)
	sets := make(chan []Member, 1024)
	o := quiet(nil, r)
	o.Interval = time.Millisecond
	o.OnChange = func(ms []Member) { sets <- ms }
	w := watch(t, o)
	require.Len(t, <-sets, 2)
	for i := range 20 {
		s.set(func() {
			switch i % 4 {
			case 0:
				delete(s.a, "vllm.test.")
			case 1:
				s.refuse = true
			case 2:
				s.a["vllm.test."] = nil
			case 3:
				s.a["vllm.test."], s.refuse = addrs("127.0.0.1", "127.0.0.2"), false
			}
		})
		s.wait(6) // at most two answers (A and AAAA) belong to a resolution
		assert.Len(t, w.Members(), 2)
	}
	s.set(func() { s.a["vllm.test."] = addrs("127.0.0.2", "127.0.0.3") })
	for ms := range sets {
		if brevity(ms) == "127.0.0.2:1 127.0.0.3:1" {
			break
		}
	}
}
