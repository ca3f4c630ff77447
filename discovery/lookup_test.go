package discovery

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fake answers lookups from maps: a name with an error fails, one without an entry
// does not exist, one with a delay answers late.
type fake struct {
	mu    sync.Mutex
	a     map[string][]netip.Addr
	srv   map[string][]*net.SRV
	errs  map[string]error
	delay map[string]time.Duration
	asked []string
}

func newFake() *fake {
	return &fake{a: map[string][]netip.Addr{}, srv: map[string][]*net.SRV{}, errs: map[string]error{}, delay: map[string]time.Duration{}}
}

func (f *fake) enter(ctx context.Context, name string) error {
	f.mu.Lock()
	f.asked = append(f.asked, name)
	delay, err := f.delay[name], f.errs[name]
	f.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return &net.DNSError{Err: "i/o timeout", Name: name, IsTimeout: true}
		}
	}
	return err
}

func (f *fake) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if err := f.enter(ctx, host); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.errs[network+" "+host]; err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range f.a[host] {
		if network == "ip" || network == "ip4" == a.Unmap().Is4() {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, notFound(host)
	}
	return out, nil
}

func (f *fake) LookupSRV(ctx context.Context, _, _, name string) (string, []*net.SRV, error) {
	if err := f.enter(ctx, name); err != nil {
		return "", nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if records, ok := f.srv[name]; ok {
		return name, records, f.errs["malformed "+name]
	}
	return "", nil, notFound(name)
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func notFound(name string) error {
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func addrs(texts ...string) (out []netip.Addr) {
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// srvs reads target:port[/priority[/weight]].
func srvs(texts ...string) (out []*net.SRV) {
	for _, s := range texts {
		parts := strings.Split(s, "/")
		target, port, _ := strings.Cut(parts[0], ":")
		n := []int{0, 0, 0}
		n[0], _ = strconv.Atoi(port)
		for i, p := range parts[1:] {
			n[i+1], _ = strconv.Atoi(p)
		}
		out = append(out, &net.SRV{Target: target, Port: uint16(n[0]), Priority: uint16(n[1]), Weight: uint16(n[2])})
	}
	return out
}

func TestDNSEndpoints(t *testing.T) {
	f := newFake()
	f.a["Vllm.svc."] = nil
	f.a["vllm.svc."] = addrs("10.0.0.2", "::ffff:10.0.0.1", "10.0.0.2", "fd00::1")
	r, err := DNS("https://Vllm.svc.:8443/team/v1", WithLookup(f))
	require.NoError(t, err)
	got := resolve(t, r)
	assert.Equal(t, []string{"https://10.0.0.1:8443/team", "https://10.0.0.2:8443/team"}, ids(got),
		"unmapped, sorted, each once, IPv4 preferred")
	for _, e := range got {
		assert.Equal(t, "https://vllm.svc:8443/team", e.URL.String(), "the name without its dot, for TLS and Host")
		assert.Equal(t, NoRank, e.Rank)
	}
	assert.Equal(t, "10.0.0.1:8443", got[0].Addr.String())
	assert.Equal(t, []string{"vllm.svc."}, f.asked, "the dot keeps the search list out")
}

func TestDNSFamilies(t *testing.T) {
	both, six := addrs("10.0.0.1", "fd00::1"), addrs("fd00::1")
	for _, c := range []struct {
		family Family
		has    []netip.Addr
		want   []string
	}{
		{PreferIPv4, both, []string{"http://10.0.0.1:1"}},
		{PreferIPv4, six, []string{"http://[fd00::1]:1"}},
		{PreferIPv6, both, []string{"http://[fd00::1]:1"}},
		{PreferIPv6, addrs("10.0.0.1"), []string{"http://10.0.0.1:1"}},
		{OnlyIPv4, both, []string{"http://10.0.0.1:1"}},
		{OnlyIPv4, six, nil},
		{OnlyIPv6, both, []string{"http://[fd00::1]:1"}},
		{EveryAddress, both, []string{"http://10.0.0.1:1", "http://[fd00::1]:1"}},
	} {
		f := newFake()
		f.a["h"] = c.has
		r, err := DNS("http://h:1", WithLookup(f), WithFamily(c.family))
		require.NoError(t, err)
		got, err := r.Resolve(t.Context())
		if c.want == nil {
			assert.Error(t, err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, ids(got))
	}
}

// A dual-stack name whose A lookup times out must not turn the fleet into its AAAA
// addresses: every identity would change.
func TestDNSDoesNotSwapFamiliesOnFailure(t *testing.T) {
	f := newFake()
	f.a["h"] = addrs("10.0.0.1", "fd00::1")
	f.errs["ip4 h"] = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	r, err := DNS("http://h:1", WithLookup(f))
	require.NoError(t, err)
	_, err = r.Resolve(t.Context())
	assert.ErrorContains(t, err, "server misbehaving")
}

func TestDNSOfAnAddressAsksNobody(t *testing.T) {
	f := newFake()
	r, err := DNS("http://[fd00::1]:1", WithLookup(f))
	require.NoError(t, err)
	assert.Equal(t, []string{"http://[fd00::1]:1"}, ids(resolve(t, r)))
	assert.Empty(t, f.asked)
}

func TestLookupDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.delay["h"] = time.Hour
		for _, r := range []func() (Resolver, error){
			func() (Resolver, error) { return DNS("http://h:1", WithLookup(f), WithLookupTimeout(3*time.Second)) },
			func() (Resolver, error) { return SRV("http", "h", WithLookup(f), WithLookupTimeout(3*time.Second)) },
		} {
			r, err := r()
			require.NoError(t, err)
			start := time.Now()
			_, err = r.Resolve(t.Context())
			assert.ErrorContains(t, err, "no answer within 3s")
			var dns *net.DNSError
			assert.ErrorAs(t, err, &dns)
			assert.Equal(t, 3*time.Second, time.Since(start))
		}
	})
}

func TestSRVEndpoints(t *testing.T) {
	f := newFake()
	f.srv["_http._tcp.v"] = srvs("Pod-1.v.:9001", "pod-0.v.:9000", "pod-0.v.:9000", "pod-0.v.:9002", "pod-2.v.:0", ".:9", "bad name.:1")
	f.a["pod-0.v."] = addrs("10.0.0.7", "10.0.0.8")
	f.a["pod-1.v."] = addrs("10.0.0.9")
	r, err := SRV("http", "_http._tcp.v", WithLookup(f))
	require.NoError(t, err)
	got := resolve(t, r)
	assert.Equal(t, []string{"http://pod-0.v:9000", "http://pod-0.v:9002", "http://pod-1.v:9001"}, ids(got),
		"one endpoint a target and port, sorted, useless records left out")
	assert.Equal(t, "http://pod-1.v:9001", got[2].URL.String())
	assert.Equal(t, "10.0.0.7:9000", got[0].Addr.String())
	assert.Zero(t, got[0].Weight)
}

func TestSRVIdentitySurvivesARestart(t *testing.T) {
	f := newFake()
	f.srv["v"] = srvs("pod-0.:9000", "pod-1.:9000", "pod-2.:9000")
	f.a["pod-0."], f.a["pod-1."] = addrs("10.0.0.2", "10.0.0.1"), addrs("10.0.0.9")
	r, err := SRV("http", "v", WithLookup(f))
	require.NoError(t, err)
	first := resolve(t, r)
	assert.Equal(t, []string{"http://pod-0:9000", "http://pod-1:9000"}, ids(first), "pod-2 has no address yet")
	assert.Equal(t, "10.0.0.1:9000", first[0].Addr.String())

	f.set(func() {
		f.a["pod-0."] = addrs("10.0.0.0", "10.0.0.1") // a smaller one beside the one it has
		f.a["pod-1."] = addrs("10.0.0.77")
		f.a["pod-2."] = addrs("10.0.0.5")
	})
	second := resolve(t, r)
	assert.Equal(t, []string{"http://pod-0:9000", "http://pod-1:9000", "http://pod-2:9000"}, ids(second))
	assert.Equal(t, "10.0.0.1:9000", second[0].Addr.String(), "an address still valid is kept")
	assert.Equal(t, "10.0.0.77:9000", second[1].Addr.String())

	f.set(func() { f.errs["pod-1."] = errors.New("server misbehaving"); delete(f.a, "pod-2.") })
	third := resolve(t, r)
	assert.Equal(t, ids(second), ids(third))
	assert.Equal(t, "10.0.0.77:9000", third[1].Addr.String(), "the last address of a target whose lookup fails")
	assert.Equal(t, "10.0.0.5:9000", third[2].Addr.String(), "and of one that does not exist for the moment")
}

func TestSRVPrefersAddressesThatMayBeDialled(t *testing.T) {
	f := newFake()
	f.srv["v"] = srvs("p.:1")
	f.a["p."] = addrs("100.100.100.200", "169.254.1.1", "172.16.0.1")
	r, err := SRV("http", "v", WithLookup(f))
	require.NoError(t, err)
	assert.Equal(t, "172.16.0.1:1", resolve(t, r)[0].Addr.String())
}

func TestSRVPriorities(t *testing.T) {
	f := newFake()
	f.srv["v"] = srvs("backup.:1/10", "main-0.:1/5", "main-1.:1/5")
	f.a["backup."], f.a["main-0."] = addrs("10.0.0.1"), addrs("10.0.0.2")
	r, err := SRV("http", "v", WithLookup(f))
	require.NoError(t, err)
	assert.Equal(t, []string{"http://main-0:1"}, ids(resolve(t, r)))

	fresh, err := SRV("http", "v", WithLookup(f))
	require.NoError(t, err)
	f.set(func() { delete(f.a, "main-0.") })
	assert.Equal(t, []string{"http://backup:1"}, ids(resolve(t, fresh)), "the next priority when none of the first is found")
}

func TestSRVWeights(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want []uint32
	}{
		{[]string{"a:1/0/33", "b:1/0/33", "c:1/0/33"}, []uint32{0, 0, 0}},
		{[]string{"a:1/0/50", "b:1/0/100", "c:1/0/150"}, []uint32{1, 2, 3}},
		{[]string{"a:1/0/0", "b:1/0/10"}, []uint32{1, 10}},
		{[]string{"a:1/0/0", "b:1/0/0"}, []uint32{0, 0}},
	} {
		var in []target
		for _, r := range srvs(c.in...) {
			in = append(in, target{host: r.Target, port: r.Port, weight: r.Weight})
		}
		assert.Equal(t, c.want, shares(in), "%v", c.in)
	}
}

func TestSRVErrors(t *testing.T) {
	f := newFake()
	r, err := SRV("http", "v", WithLookup(f))
	require.NoError(t, err)
	var dns *net.DNSError
	_, err = r.Resolve(t.Context())
	assert.ErrorAs(t, err, &dns)
	assert.True(t, dns.IsNotFound)

	f.set(func() { f.srv["v"] = srvs(".:1") })
	_, err = r.Resolve(t.Context())
	assert.ErrorIs(t, err, ErrNoEndpoints, "\".\" says that the service is not offered")

	f.set(func() { f.srv["v"] = srvs("p.:1") })
	_, err = r.Resolve(t.Context())
	assert.ErrorContains(t, err, "no target of v has an address")
	assert.ErrorAs(t, err, &dns)
}

// net.Resolver returns the good records and an error when some are malformed.
func TestSRVTakesTheGoodRecords(t *testing.T) {
	f := newFake()
	f.srv["v"], f.a["p."] = srvs("p.:1"), addrs("10.0.0.1")
	f.errs["malformed v"] = &net.DNSError{Err: "DNS response contained records which contain invalid names", Name: "v"}
	r, err := SRV("http", "v", WithLookup(f))
	require.NoError(t, err)
	assert.Equal(t, []string{"http://p:1"}, ids(resolve(t, r)))
}

func TestSRVLooksUpTargetsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for i := range 64 {
			name := "pod-" + strconv.Itoa(i) + "."
			f.srv["v"] = append(f.srv["v"], srvs(name+":1")...)
			f.a[name], f.delay[name] = addrs("10.0.0.1"), time.Second
		}
		f.delay["pod-7."] = time.Hour
		r, err := SRV("http", "v", WithLookup(f), WithLookupTimeout(5*time.Second))
		require.NoError(t, err)
		start := time.Now()
		assert.Len(t, resolve(t, r), 63, "all but the one that does not answer")
		// One after the other it would be 63 s and the timeout; 16 at a time, 3 s and it.
		assert.LessOrEqual(t, time.Since(start), 9*time.Second)
	})
}
