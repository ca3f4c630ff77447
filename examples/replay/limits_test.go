package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/examples/internal/program"
)

// failing runs the program, which is to end with the status, and returns what it says.
func failing(t *testing.T, status int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	require.Equal(t, status, run(context.Background(), append([]string{"-quiet"}, args...), &out, &errs), "%q\n%s", args, out.String())
	return errs.String()
}

// Numbers that make no sense are refused before anything runs.
func TestNumbersOutOfRange(t *testing.T) {
	for flags, want := range map[string]string{
		"-rate NaN":                         "-rate is NaN; use at least 0.000001",
		"-rate +Inf":                        "-rate is +Inf; use at most 1000000",
		"-rate 1e-300":                      "-rate is 0.000",
		"-speed Inf":                        "-speed is +Inf",
		"-arrivals 1e300":                   "-arrivals is 1000",
		"-think NaN":                        "-think is NaN",
		"-clients 100000":                   "-clients: \"100000\" is not a number of clients from 1 to 1024",
		"-clients 4,4":                      "-clients: 4 is there twice",
		"-policies random,random":           "-policies: \"random\" is there twice",
		"-cache 9223372036854775807":        "-cache is 9223372036854776000; use at most 125000000",
		"-scale-add 2":                      "-scale-add is 2; use at most 1",
		"-scale-del -.1":                    "-scale-del is -0.1; use at least 0",
		"-window-at NaN":                    "-window-at is NaN",
		"-window-at .5 -scale-add .5":       "-window-at is for a fleet that does not change",
		"-sessions -1":                      "-sessions is -1",
		"-first -1s":                        "-first is -1",
		"-horizon -1s":                      "-horizon is -1",
		"-users 0":                          "-users is 0",
		"-model m":                          "-model is for measurements; give -endpoints",
		"-engine step=1e300":                "-engine: step is 1e+300; it must be above 0 and at most 1e+09",
		"-policies affinity:gauges=2":       "gauges is 2; use 0 or 1",
		"-policies bounded-load:floor=NaN":  "floor is NaN; use a whole number",
		"-policies fixed-prefix:length=4e9": "length is 4e9; use a whole number",
		"-policies random:length=2048":      "length is a parameter of fixed-prefix",
	} {
		require.Contains(t, failing(t, program.Usage, append([]string{"-trace", "x"}, strings.Fields(flags)...)...), want, flags)
	}
}

func TestGeneratorsOutOfRange(t *testing.T) {
	for spec, want := range map[string]string{
		"chat:users=1e9":                        `"users=1e9" is out of range; use a number from 1 to 1000000`,
		"heads:users=0":                         "from 1 to",
		"documents:zipf=NaN":                    "out of range",
		"documents:arrivals=NaN":                "out of range",
		"documents:arrivals=0":                  "from 1e-06 to",
		"documents:length=-1":                   "from 0 to",
		"chat:users=1e6,chats=1e6,turns=3":      "is too much",
		"documents:length=1e6,documents=100000": "is too much",
	} {
		require.Contains(t, failing(t, program.Failed, "-trace", "gen:"+spec), want, spec)
	}
}

// Where the engine is smaller than the trace's blocks, no prompt has a whole one.
func TestCacheSmallerThanABlock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	line := `{"timestamp":0,"input_length":9223372036854775807,"output_length":600,"hash_ids":[1,2,3,4],"session":1}`
	require.NoError(t, os.WriteFile(file, []byte(line+"\n"+line+"\n"+strings.Replace(line, "3,4", "5,6", 1)), 0o600))
	for _, r := range replayed(t, "-trace", file, "-cache", "1024", "-seeds", "1") {
		require.Equal(t, 3, r.Requests)
		require.Zero(t, r.HitRate, r.Policy)
	}
}

// A log can have a night in it, or a year: nobody waits for each of its seconds.
func TestLongGap(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log.jsonl")
	var b bytes.Buffer
	for i, year := range []string{"1971", "1971", "2025", "2026", "2026"} {
		b.WriteString(`{"time":"` + year + `-06-01T00:0` + string('0'+rune(i)) + `:00Z","body":` + body(i) + "}\n")
	}
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	for _, r := range replayed(t, "-trace", file, "-seeds", "1", "-policies", "affinity") {
		require.Equal(t, 5, r.Requests)
		require.Greater(t, r.HitRate, .3)
	}
}

func TestTimeRunsOver(t *testing.T) {
	require.Contains(t, failing(t, program.Failed, "-trace", "gen:heads:users=2,requests=99", "-clients", "1", "-seeds", "1", "-policies", "random",
		"-engine", "prefill_token=1e8"), "the run would last for centuries")
}

func TestTimesThatAreNone(t *testing.T) {
	got := read(t, `{"body":`+body(1)+`}`, `{"time":"0001-01-01T00:00:00Z","body":`+body(1)+`}`, `{"time":"9999-01-01T00:00:00Z","body":`+body(1)+`}`,
		`{"time":"2026-01-31T12:00:00Z","body":`+body(2)+`}`)
	require.Len(t, got.requests, 2)
	require.Contains(t, got.bad[0], "line 2: 0001-01-01 00:00:00 +0000 UTC is no time of a request")
	require.Contains(t, got.bad[1], "line 3: 9999")
	require.Zero(t, got.duration(), "the request without a time comes with the first that has one")
}

// A line of another kind within a trace of hashes is no prompt of one token.
func TestRequestAmongHashes(t *testing.T) {
	got := read(t, `{"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[1,2]}`, body(1), `{"timestamp":1,"input_length":600,"output_length":1}`)
	require.Len(t, got.requests, 1)
	require.Equal(t, 2, got.badLines)
	require.Contains(t, got.bad[0], `want "input_length" and "hash_ids"`)
}

func TestGzip(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log.gz")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte("\xef\xbb\xbf" + body(1) + "\n" + body(2)))
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	got, err := loadTrace(file, testOptions)
	require.NoError(t, err)
	require.Len(t, got.requests, 2)
	require.NoError(t, os.WriteFile(file, b.Bytes()[:b.Len()/2], 0o600))
	_, err = loadTrace(file, testOptions)
	require.ErrorContains(t, err, "unexpected EOF")
}

// A recording of sessions that wait for answers has times as if they had waited.
func TestAnonymizedSessions(t *testing.T) {
	dir := t.TempDir()
	file, recording := filepath.Join(dir, "sessions.json"), filepath.Join(dir, "recording.jsonl")
	turn := `{"role":"user","content":"` + strings.Repeat("go on ", 100) + `"},{"role":"assistant","content":"yes"}`
	session := `{"traj":[{"role":"system","content":"be kind"},` + turn + "," + turn + "," + turn + `]}`
	require.NoError(t, os.WriteFile(file, []byte("["+session+","+session+"]"), 0o600))
	require.Contains(t, failing(t, 0, "-trace", file, "-users", "1", "-anonymize", recording), "6 requests of")
	got, err := loadTrace(recording, testOptions)
	require.NoError(t, err)
	for i, r := range got.requests[1:] {
		require.GreaterOrEqual(t, r.at-got.requests[i].at, sessionOutput*14*time.Millisecond, "an answer of 64 tokens takes so long")
	}
}

// What was refused leaves no file behind, in which the next attempt would see one.
func TestNothingToAnonymize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "recording.jsonl")
	require.Contains(t, failing(t, program.Failed, "-trace", "gen:chat:users=2", "-anonymize", file), "needs no anonymising")
	require.NoFileExists(t, file)
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestOutputThatFails(t *testing.T) {
	for _, more := range []string{"-quiet", "-json"} {
		var errs bytes.Buffer
		require.Equal(t, program.Failed, run(t.Context(), []string{"-trace", "gen:chat:users=2,chats=2", "-seeds", "1", "-clients", "1", more}, fullDisk{}, &errs))
		require.Contains(t, errs.String(), "replay: the disk is full")
	}
}
