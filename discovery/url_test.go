package discovery

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseURL(t *testing.T) {
	for raw, want := range map[string][2]string{ // identity, URL
		"http://10.0.0.1:8000":           {"http://10.0.0.1:8000", "http://10.0.0.1:8000"},
		" http://10.0.0.1:8000/v1\n":     {"http://10.0.0.1:8000", "http://10.0.0.1:8000"},
		"HTTP://Host.Example:8000/v1///": {"http://host.example:8000", "http://host.example:8000"},
		"http://h/v1/v1":                 {"http://h:80", "http://h"},
		"http://h:080":                   {"http://h:80", "http://h"},
		"https://h":                      {"https://h:443", "https://h"},
		"https://h:443/":                 {"https://h:443", "https://h"},
		"http://h:443":                   {"http://h:443", "http://h:443"},
		"http://gw/team-a/v1":            {"http://gw:80/team-a", "http://gw/team-a"},
		"http://gw/Team-A":               {"http://gw:80/Team-A", "http://gw/Team-A"},
		"http://vllm.svc.:8000":          {"http://vllm.svc:8000", "http://vllm.svc.:8000"},
		"http://[FD00:0::1]:8000":        {"http://[fd00::1]:8000", "http://[fd00::1]:8000"},
		"http://[fd00::1]":               {"http://[fd00::1]:80", "http://[fd00::1]"},
		"http://[::ffff:10.0.0.1]:8000":  {"http://10.0.0.1:8000", "http://10.0.0.1:8000"},
		"http://[fe80::1%25eth0]:8000":   {"http://[fe80::1%25eth0]:8000", "http://[fe80::1%25eth0]:8000"},
		"http://vllm_0:8000":             {"http://vllm_0:8000", "http://vllm_0:8000"},
		"http://10-0-0-1.svc:8000":       {"http://10-0-0-1.svc:8000", "http://10-0-0-1.svc:8000"},
	} {
		e, err := ParseURL(raw)
		if assert.NoError(t, err, raw) {
			assert.Equal(t, want, [2]string{e.ID, e.URL.String()}, raw)
			assert.Equal(t, NoRank, e.Rank)
			assert.False(t, e.Addr.IsValid())
		}
	}
}

func TestParseURLSaysWhatToWrite(t *testing.T) {
	for raw, want := range map[string][2]string{ // part of the problem, what to write
		"":                                    {"is empty", exampleURL},
		"h:8000":                              {"no scheme", "http://h:8000"},
		"10.0.0.1:8000/v1":                    {"no scheme", "http://10.0.0.1:8000/v1"},
		"[fd00::1]:8000":                      {"no scheme", "http://[fd00::1]:8000"},
		"http:/h:8000":                        {"no scheme", "http://h:8000"},
		"http//h:8000":                        {"no scheme", "http://h:8000"},
		"//h:8000":                            {"no scheme", "http://h:8000"},
		"h:8000?x=1":                          {"no scheme", "http://h:8000"},
		"grpc://h:8000":                       {"scheme other than", "http://h:8000"},
		"dns+http://h:8000":                   {"for Parse", "http://h:8000"},
		"http://user:pw@h:8000/v1":            {"user name or password", "http://h:8000/v1"},
		"http://h:8000?key=1":                 {"query", "http://h:8000"},
		"http://h:8000#x":                     {"fragment", "http://h:8000"},
		"http://":                             {"no host", exampleURL},
		"http://:8000":                        {"no host", exampleURL},
		"http:///v1":                          {"no host", exampleURL},
		"http://h:":                           {"bad port", "http://h:8000"},
		"http://h:0":                          {"bad port", "http://h:8000"},
		"http://h:65536":                      {"bad port", "http://h:8000"},
		"http://h:+80":                        {"bad port", "http://h:8000"},
		"http://h:http/v1":                    {"bad port", "http://h:8000/v1"},
		"http://[fd00::1]:x":                  {"bad port", "http://[fd00::1]:8000"},
		"http://fd00::1":                      {"without brackets", "http://[fd00::1]:8000"},
		"http://[fd00::1":                     {"unclosed bracket", "http://[fd00::1]"},
		"http://[fd00::1]8000":                {"behind the bracket", "http://[fd00::1]"},
		"http://[10.0.0.1]:80":                {"no IPv6 address", exampleURL},
		"http://127.1:8000":                   {"neither a name nor an address", exampleURL},
		"http://0x7f.0.0.1:8000":              {"neither a name nor an address", exampleURL},
		"http://2852039166":                   {"neither a name nor an address", exampleURL},
		"http://0xA9FEA9FE":                   {"neither a name nor an address", exampleURL},
		"http://300.0.0.1":                    {"neither a name nor an address", exampleURL},
		"http://010.0.0.1":                    {"neither a name nor an address", exampleURL},
		"http://a..b":                         {"empty or overlong label", exampleURL},
		"http://bücher.example":               {"not ASCII", exampleURL},
		"http://a b":                          {"no host name has", exampleURL},
		"http://h%2e:80":                      {"no host name has", exampleURL},
		"http://h:8000/v1/chat/completions":   {"path of one API call", "http://h:8000/v1"},
		"http://h:8000/health":                {"path of one API call", "http://h:8000"},
		"http://h/a%2Fb":                      {"odd characters", "http://h"},
		"http://h/a/../b":                     {"dotted parts", "http://h"},
		"http://h/a//b":                       {"empty or dotted", "http://h"},
		"http://a:8000,http://b:8000":         {"lists are for Parse", "http://a:8000"},
		"http://" + strings.Repeat("a.", 2e3): {"longer than", exampleURL},
	} {
		_, err := ParseURL(raw)
		var bad *URLError
		if !assert.ErrorAs(t, err, &bad, raw) {
			continue
		}
		assert.Contains(t, bad.Problem, want[0], raw)
		assert.Equal(t, want[1], bad.Write, raw)
		_, err = ParseURL(bad.Write)
		assert.NoError(t, err, "the proposal for %q", raw)
	}
}

func TestParseURLHidesSecrets(t *testing.T) {
	for _, raw := range []string{
		"http://user:s3cret@h:8000",
		"http://s3cret@h:8000",
		"http://user:s3cret/x@h",
		"http://user:s3cret?x@h",
		"http://user:s3cret#x@h",
		"user:s3cret@h:8000",
		"s3cret@ftp://h",
		"http://h:8000/?api_key=s3cret",
		"http://h:8000#s3cret",
		"h:8000?k=s3cret",
		"ftp://user:s3cret@h",
	} {
		for _, f := range []func() error{
			func() error { _, err := ParseURL(raw); return err },
			func() error { _, err := Static(raw); return err },
			func() error { _, err := Parse("http://a:1," + raw); return err },
			func() error { _, err := Parse("dns+" + raw); return err },
			func() error { _, err := Parse("srv+" + raw); return err },
			func() error { _, err := DNS(raw); return err },
			func() error { _, err := SRV("http", raw); return err },
		} {
			err := f()
			require.Error(t, err, raw)
			assert.NotContains(t, err.Error(), "s3cret", raw)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"http://10.0.0.1:8000/v1,http://b", "dns+http://vllm.svc:8000", "srv+https://_http._tcp.vllm/x",
		"a=http://h,b=http://g:1", "http://[fe80::1%25eth0]:80", "h:8000", "http://u:p@h?q#f", "http://0x7f.1", "//[::1", "dns+dns+http://@@",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if r, err := Parse(raw); err != nil {
			assertHidden(t, raw, err)
		} else if r == nil {
			t.Fatal("neither resolver nor error")
		}
		e, err := ParseURL(raw)
		if err != nil {
			assertHidden(t, raw, err)
			var bad *URLError
			if !errors.As(err, &bad) {
				t.Fatalf("%T", err)
			}
			if _, err := ParseURL(bad.Write); err != nil {
				t.Fatalf("the proposal %q for %q: %v", bad.Write, raw, err)
			}
			return
		}
		for _, again := range []string{e.ID, e.URL.String(), e.URL.String() + "/v1/"} {
			e2, err := ParseURL(again)
			if err != nil || e2.ID != e.ID {
				t.Fatalf("%q became %q, and %q became %q, %v", raw, e.ID, again, e2.ID, err)
			}
		}
		if e2, _ := ParseURL(e.URL.String()); e2.URL.String() != e.URL.String() {
			t.Fatalf("%q became %q, which became %q", raw, e.URL, e2.URL)
		}
	})
}

// assertHidden fails if an error shows what stands before an "@", where it is long
// enough not to be there by chance.
func assertHidden(t *testing.T, raw string, err error) {
	t.Helper()
	i := strings.LastIndexByte(raw, '@')
	if i < 0 || strings.Contains(raw, ",") {
		return
	}
	secret := raw[:i]
	if j := strings.LastIndexAny(secret, ":/ \n+="); j >= 0 {
		secret = secret[j+1:]
	}
	if len(secret) > 6 && !strings.Contains(raw[i:], secret) && !strings.Contains(exampleURL, secret) && strings.Contains(err.Error(), secret) {
		t.Fatalf("%q shows in %v", secret, err)
	}
}
