package discovery

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// exampleURL is what an error proposes when nothing better can be guessed.
const exampleURL = "http://10.0.0.1:8000"

// A URLError says what is wrong with the spelling of an endpoint and what to
// write instead. It never shows user names, passwords or query strings.
type URLError struct {
	Given   string // as configured, secrets hidden
	Problem string // "has no scheme"
	Write   string // a spelling that works
}

// Error implements error.
func (e *URLError) Error() string {
	return fmt.Sprintf("discovery: endpoint %q %s: write %q", e.Given, e.Problem, e.Write)
}

// ParseURL reads the URL of one endpoint: scheme (http or https), host, optional
// port, optional path prefix, optional "/v1". Space around it is ignored. Anything
// else (no scheme, user info, query, fragment, a path of the API itself) is an
// [*URLError] that says what to write instead.
//
// The identity does not depend on letter case, "/v1", trailing slashes or dots, or
// on whether a default port is written.
func ParseURL(raw string) (Endpoint, error) {
	u, err := normalizeURL(raw)
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{ID: identityOf(u), URL: u, Rank: NoRank}, nil
}

// normalizeURL takes the URL apart by hand: the errors of net/url repeat their
// input, which may hold a password.
func normalizeURL(raw string) (*url.URL, error) {
	s := strings.TrimSpace(raw)
	fail := func(problem, try string) (*url.URL, error) {
		return nil, &URLError{Given: redact(s), Problem: problem, Write: suggest(try)}
	}
	if s == "" {
		return fail("is empty", "")
	}
	if len(s) > maxURL {
		return fail("is longer than 2,048 bytes", "")
	}
	if first, _, ok := strings.Cut(s, ","); ok {
		return fail("has a comma, and lists are for Parse", first)
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return fail("has no scheme", "http://"+trimBrokenScheme(s))
	}
	scheme = strings.ToLower(scheme)
	if kind, plain, ok := strings.Cut(scheme, "+"); ok && (kind == "dns" || kind == "srv") {
		return fail("is a name to look up, which is for Parse, not one endpoint", plain+"://"+rest)
	}
	if scheme != "http" && scheme != "https" {
		return fail("has a scheme other than http and https", "http://"+rest)
	}
	// An "@" anywhere: a password may itself hold "/", "?" or "#".
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		return fail("has a user name or password, and the key is given apart", scheme+"://"+rest[i+1:])
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if i := strings.IndexByte(tail, '#'); i >= 0 {
		return fail("has a fragment", scheme+"://"+authority+tail[:i])
	}
	if i := strings.IndexByte(tail, '?'); i >= 0 {
		return fail("has a query", scheme+"://"+authority+tail[:i])
	}
	host, port, problem, try := splitHostPort(scheme, authority)
	if problem != "" {
		if try != "" {
			try = scheme + "://" + try + tail
		}
		return fail(problem, try)
	}
	path, problem, try := pathPrefix(tail)
	if problem != "" {
		return fail(problem, scheme+"://"+hostPort(scheme, host, port)+try)
	}
	return &url.URL{Scheme: scheme, Host: hostPort(scheme, host, port), Path: path}, nil
}

// maxURL bounds what is parsed and shown; 2,048 is the limit that browsers and
// proxies have long agreed on.
const maxURL = 2048

// splitHostPort returns the normalized host and port of an authority, or a
// problem and an authority to write instead ("" when there is no good guess).
func splitHostPort(scheme, authority string) (host string, port uint16, problem, try string) {
	if authority == "" {
		return "", 0, "has no host", ""
	}
	host = authority
	portText, hasPort := "", false
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return "", 0, "has an unclosed bracket", authority + "]"
		}
		host = authority[1:end]
		after := authority[end+1:]
		if after != "" {
			if after[0] != ':' {
				return "", 0, "has text behind the bracket", authority[:end+1]
			}
			portText, hasPort = after[1:], true
		}
		addr, err := netip.ParseAddr(strings.Replace(host, "%25", "%", 1))
		if err != nil || !addr.Is6() {
			return "", 0, "has no IPv6 address between the brackets", ""
		}
		if strings.ContainsFunc(addr.Zone(), func(r rune) bool { return !hostRune(r) }) {
			return "", 0, "has an odd zone in its IPv6 address", ""
		}
		host = addr.Unmap().String()
	} else {
		if strings.Count(authority, ":") > 1 {
			if addr, err := netip.ParseAddr(authority); err == nil {
				return "", 0, "has an IPv6 address without brackets", "[" + addr.String() + "]:8000"
			}
			i := strings.LastIndexByte(authority, ':')
			return "", 0, "has more than one colon in the host", "[" + authority[:i] + "]" + authority[i:]
		}
		host, portText, hasPort = strings.Cut(authority, ":")
		host = strings.ToLower(host)
		if problem := nameProblem(host); problem != "" {
			return "", 0, problem, ""
		}
	}
	if !hasPort {
		return host, defaultPort(scheme), "", ""
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || n == 0 {
		return "", 0, "has a bad port (1 to 65535)", hostPort(scheme, host, 8000)
	}
	return host, uint16(n), "", ""
}

// nameProblem says what is wrong with a host name or dotted IPv4 address in lower
// case.
func nameProblem(host string) string {
	if host == "" {
		return "has no host"
	}
	name := strings.TrimSuffix(host, ".")
	if len(name) > 253 { // RFC 1035 2.3.4, in presentation form
		return "has a host name longer than 253 bytes"
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 {
			return "has a host name with an empty or overlong label"
		}
		for _, r := range l {
			if r > 0x7e {
				return "has a host name that is not ASCII, which is written in its xn-- form"
			}
			if !hostRune(r) {
				return "has a host name with a character that no host name has"
			}
		}
	}
	// A name that ends in a number is read as an IPv4 address by some libraries
	// ("127.1", "0x7f.1", "2130706433") and as a name by others. WHATWG's URL
	// standard takes it for an address too; only the dotted form is unmistakable.
	last := labels[len(labels)-1]
	_, err := strconv.ParseUint(last, 0, 64)
	if err == nil || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		if addr, err := netip.ParseAddr(name); err != nil || !addr.Is4() || name != host {
			return "has a host that is neither a name nor an address of four numbers"
		}
	}
	return ""
}

// hostRune reports the characters of host names. The underscore is there for SRV
// names and Docker Compose.
func hostRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.'
}

// apiPaths are what people paste behind the base URL by mistake.
var apiPaths = []string{
	"/chat/completions", "/completions", "/embeddings", "/responses", "/messages", "/models", "/health", "/metrics",
}

// pathPrefix normalizes a path to a prefix without "/v1", or returns a problem
// and a path to write instead.
func pathPrefix(path string) (prefix, problem, try string) {
	for {
		short := strings.TrimSuffix(strings.TrimRight(path, "/"), "/v1")
		if short == path {
			break
		}
		path = short
	}
	if path == "" {
		return "", "", ""
	}
	for _, p := range apiPaths {
		if base, ok := strings.CutSuffix(path, p); ok {
			return "", "has the path of one API call, not of the API", base
		}
	}
	if strings.ContainsFunc(path, func(r rune) bool { return !hostRune(r) && !strings.ContainsRune("/~:!$&'()*+;=", r) }) {
		return "", "has a path with spaces, escapes, commas or other odd characters", ""
	}
	if segs := strings.Split(path[1:], "/"); slices.Contains(segs, "") || slices.Contains(segs, ".") || slices.Contains(segs, "..") {
		return "", "has a path with empty or dotted parts", ""
	}
	return path, "", ""
}

// trimBrokenScheme removes what looks like a misspelt "http://".
func trimBrokenScheme(s string) string {
	for _, p := range []string{"https:", "http:", "https", "http"} {
		if len(s) > len(p) && strings.EqualFold(s[:len(p)], p) && (s[len(p)] == '/' || p[len(p)-1] == ':') {
			s = s[len(p):]
			break
		}
	}
	return strings.TrimLeft(s, "/")
}

// suggest returns a spelling that ParseURL accepts, as near to try as it finds.
func suggest(try string) string {
	if try == "" {
		return exampleURL
	}
	_, err := normalizeURL(try)
	if err == nil {
		return try
	}
	return err.(*URLError).Write
}

// redact hides what may be a secret, and bounds the length.
func redact(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		start := 0
		if j := strings.Index(s, "://"); j >= 0 && j < i {
			start = j + len("://")
		}
		s = s[:start] + "…" + s[i:]
	}
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s = s[:i+1] + "…"
	}
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
