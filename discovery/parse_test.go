package discovery

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ids lists the identities in order.
func ids(endpoints []Endpoint) []string {
	out := []string{}
	for _, e := range endpoints {
		out = append(out, e.ID)
	}
	return out
}

func resolve(t *testing.T, r Resolver) []Endpoint {
	t.Helper()
	out, err := r.Resolve(t.Context())
	require.NoError(t, err)
	return out
}

func TestStaticRefusesDuplicates(t *testing.T) {
	for _, urls := range [][]string{
		{"http://h:8000", "HTTP://H:8000/v1/"},
		{"http://h", "http://h:80"},
		{"http://h.:1", "http://h:1"},
		{"a=http://h:8000", "http://h:8000/v1"},
		{"a=http://h:8000", "b=http://h:8000/"},
		{"a=http://h:1", "a=http://h:2"},
	} {
		_, err := Static(urls...)
		require.Error(t, err, "%v", urls)
		assert.Contains(t, err.Error(), urls[0], "the error names the first spelling")
		assert.Contains(t, err.Error(), urls[1], "the error names the second spelling")
	}
	_, err := Static()
	assert.ErrorContains(t, err, exampleURL)
}

func TestStaticNames(t *testing.T) {
	r, err := Static("vllm-0=http://10.0.0.1:8000/v1", "http://10.0.0.2:8000")
	require.NoError(t, err)
	got := resolve(t, r)
	assert.Equal(t, []string{"vllm-0", "http://10.0.0.2:8000"}, ids(got))
	assert.Equal(t, "10.0.0.1:8000", got[0].DialAddress())
	assert.Equal(t, "vllm-0", got[0].String())

	got[0].ID = "changed"
	assert.Equal(t, "vllm-0", resolve(t, r)[0].ID, "the answer is the caller's to change")

	_, err = Static("a b=http://h:1")
	assert.ErrorContains(t, err, `write "vllm-0=http://h:1"`)
}

func TestDialAddress(t *testing.T) {
	for raw, want := range map[string]string{
		"http://h": "h:80", "https://h": "h:443", "http://h:1": "h:1", "http://[fd00::1]": "[fd00::1]:80",
	} {
		e, err := ParseURL(raw)
		require.NoError(t, err)
		assert.Equal(t, want, e.DialAddress())
		e.Addr = netip.MustParseAddrPort("10.0.0.9:7")
		assert.Equal(t, "10.0.0.9:7", e.DialAddress())
	}
	assert.Empty(t, Endpoint{}.DialAddress())
}

func TestList(t *testing.T) {
	e, err := ParseURL("http://h:1")
	require.NoError(t, err)
	r, err := List(Endpoint{URL: e.URL}, Endpoint{ID: "b", URL: e.URL, Rank: 3, Weight: 2})
	require.NoError(t, err)
	got := resolve(t, r)
	assert.Equal(t, []string{"http://h:1", "b"}, ids(got))
	assert.Equal(t, []int{NoRank, 3}, []int{got[0].Rank, got[1].Rank}, "a bare literal has no rank")

	for _, bad := range [][]Endpoint{{}, {{ID: "a"}}, {e, e}, {{ID: "a", URL: e.URL, Rank: -2}}} {
		_, err := List(bad...)
		assert.Error(t, err, "%v", bad)
	}
}

func TestParse(t *testing.T) {
	fake := newFake()
	fake.a["vllm.svc"] = addrs("10.0.0.1", "10.0.0.2")
	fake.srv["_http._tcp.vllm.svc"] = srvs("pod-0.vllm.svc.:9000")
	fake.a["pod-0.vllm.svc."] = addrs("10.0.0.3")
	r, err := Parse(" http://h:1, ,n=http://h:2 , DNS+http://vllm.svc:8000/v1,srv+https://_http._tcp.vllm.svc/team/v1,", WithLookup(fake))
	require.NoError(t, err)
	got := resolve(t, r)
	assert.Equal(t, []string{
		"http://h:1", "n", "http://10.0.0.1:8000", "http://10.0.0.2:8000", "https://pod-0.vllm.svc:9000/team",
	}, ids(got))
	assert.Equal(t, "https://pod-0.vllm.svc:9000/team", got[4].URL.String())

	r, err = Parse("http://h:1")
	require.NoError(t, err)
	assert.Implements(t, (*known)(nil), r, "a list alone is a fixed set")
}

func TestParseErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"":                                 "no endpoints",
		" , ":                              "no endpoints",
		"h:1,http://g:1":                   `write "http://h:1"`,
		"http://a:1 http://b:1":            "separate them with commas",
		"http://a:1;http://b:1":            "separate them with commas",
		"http://a:1,http://A:1/v1":         "are the same",
		"dns+http://a:1,dns+http://A.:1":   "are the same name",
		"srv+http://a,srv+http://A/v1":     "are the same name",
		"dns+h:8000":                       `"dns+h:8000" has no scheme: write "dns+http://h:8000"`,
		"srv+http://_http._tcp.vllm:8000":  `has a port, which SRV records give: write "srv+http://_http._tcp.vllm"`,
		"srv+http://10.0.0.1":              `is an address, which has no SRV records: write "srv+http://_http._tcp.`,
		"consul+http://h:1":                "scheme other than",
		"dns+http://h:8000/v1/completions": `write "dns+http://h:8000/v1"`,
	} {
		_, err := Parse(spec)
		assert.ErrorContains(t, err, want, spec)
	}
	_, err := SRV("http", "_http._tcp.vllm:8000")
	assert.ErrorContains(t, err, `endpoint "_http._tcp.vllm:8000" has a port, which SRV records give: write "_http._tcp.vllm"`)
	_, err = SRV("http", "srv+http://_http._tcp.vllm")
	assert.ErrorContains(t, err, `is a URL, not an SRV name: write "_http._tcp.vllm"`)
	_, err = SRV("ftp", "vllm")
	assert.ErrorContains(t, err, "scheme other than")
	_, err = DNS("srv+http://vllm")
	assert.Error(t, err)
}

// resolverFunc is a Resolver from a function.
type resolverFunc func(ctx context.Context) ([]Endpoint, error)

func (f resolverFunc) Resolve(ctx context.Context) ([]Endpoint, error) { return f(ctx) }

func TestRanks(t *testing.T) {
	static, err := Static("a=http://h:1", "http://h:2")
	require.NoError(t, err)
	moving := resolverFunc(func(context.Context) ([]Endpoint, error) {
		e, err := ParseURL("http://h:3")
		return []Endpoint{e}, err
	})
	r, err := Ranks(Join(static, nil, moving), 2)
	require.NoError(t, err)
	got := resolve(t, r)
	assert.Equal(t, []string{"a#0", "a#1", "http://h:2#0", "http://h:2#1", "http://h:3#0", "http://h:3#1"}, ids(got))
	assert.Equal(t, []int{0, 1, 0, 1, 0, 1}, []int{got[0].Rank, got[1].Rank, got[2].Rank, got[3].Rank, got[4].Rank, got[5].Rank})
	assert.Implements(t, (*known)(nil), r.(joined)[0], "the ranks of a fixed set are a fixed set")

	one, err := Ranks(static, 1)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "http://h:2"}, ids(resolve(t, one)))

	_, err = Ranks(static, 0)
	assert.ErrorContains(t, err, "write 1 or more")
	_, err = Ranks(nil, 2)
	assert.Error(t, err)
	_, err = Ranks(r, 2)
	assert.ErrorContains(t, err, "has a rank already")
}

func TestJoinFailsAsAWhole(t *testing.T) {
	static, err := Static("http://h:1")
	require.NoError(t, err)
	down := errors.New("down")
	_, err = Join(static, resolverFunc(func(context.Context) ([]Endpoint, error) { return nil, down })).Resolve(t.Context())
	assert.ErrorIs(t, err, down, "part of a fleet must not pass for the whole")
	_, err = Join().Resolve(t.Context())
	assert.ErrorIs(t, err, ErrNoEndpoints)
}
