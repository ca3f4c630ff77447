package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/examples/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines returns the report by its first column.
func lines(t *testing.T, out string) map[string]string {
	t.Helper()
	by := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, ok := strings.Cut(line, "  ")
		require.True(t, ok, line)
		by[name] = strings.TrimSpace(value)
	}
	return by
}

func TestWorkshop(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	var out, say bytes.Buffer
	require.Zero(t, run(t.Context(), nil, &out, &say), say.String())
	r := lines(t, out.String())
	require.Contains(t, r["fleet"], "SIMULATED")
	require.Contains(t, r["sessions"], "12 of 12 complete")
	require.Equal(t, "84", r["requests"])
	require.Equal(t, "0", r["errors"])
	requireHits(t, r)
}

// requireHits wants nine tenths of what a cache without bounds would give. Which
// sessions change their instance depends on the load of the moment.
func requireHits(t *testing.T, r map[string]string) {
	t.Helper()
	var hit, endless float64
	_, err := fmt.Sscanf(r["hit rate"]+" "+r["infinite cache"], "%f %% %f %%", &hit, &endless)
	require.NoError(t, err)
	require.Greater(t, endless, 50.)
	require.Less(t, endless, 100.)
	require.GreaterOrEqual(t, hit, .9*endless)
}

// Every message of the assistant but one that opens a session is asked for, with
// everything before it.
func TestReplay(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	file := filepath.Join(t.TempDir(), "sessions.json")
	require.NoError(t, os.WriteFile(file, []byte(`[
		{"task_id":0,"trial":0,"traj":[
			{"role":"system","content":"policy"},{"role":"user","content":"hello"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c1","name":"find","content":"found"},
			{"role":"assistant","content":"there"}]},
		{"task_id":1,"trial":0,"traj":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"}]}]`), 0o600))
	var out, say bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-trajectories", file}, &out, &say), say.String())
	r := lines(t, out.String())
	require.Contains(t, r["sessions"], "2 of 2 complete")
	require.Equal(t, "3", r["requests"])
	require.Equal(t, "0", r["errors"])

	out.Reset()
	require.Zero(t, run(t.Context(), []string{"-trajectories", file, "-n", "1"}, &out, &say), say.String())
	require.Equal(t, "2", lines(t, out.String())["requests"])
}

func TestRecordedSessions(t *testing.T) {
	data := os.Getenv("PREFIXWISE_DATA")
	if data == "" {
		data = filepath.Join("..", "..", "..", "shared", "data")
	}
	file := filepath.Join(data, "taubench", "gpt-4o-airline.json")
	if _, err := os.Stat(file); err != nil {
		t.Skip("needs the recorded sessions: ", err)
	}
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	var out, say bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-trajectories", file, "-n", "8"}, &out, &say), say.String())
	r := lines(t, out.String())
	require.Contains(t, r["sessions"], "8 of 8 complete")
	require.Equal(t, "0", r["errors"])
	requireHits(t, r)
}

func TestWrongArguments(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	for name, tt := range map[string]struct {
		args []string
		say  string
	}{
		"unknown flag":  {[]string{"-sessions", "1"}, "not defined: -sessions"},
		"argument":      {[]string{"file"}, "given with -trajectories"},
		"negative":      {[]string{"-n", "-1"}, "write 0"},
		"too many":      {[]string{"-n", "13"}, "only 12 sessions"},
		"nobody":        {[]string{"-parallel", "0"}, "write 1"},
		"bad endpoints": {[]string{"-endpoints", "a:8000"}, "http://a:8000"},
		"no file":       {[]string{"-trajectories", filepath.Join(dir, "none")}, "no such file"},
		"not a session": {[]string{"-trajectories", write("object", `{"traj":[]}`)}, `messages in "traj"`},
		"no assistant":  {[]string{"-trajectories", write("empty", `[{"traj":[{"role":"user","content":"hi"}]}]`)}, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, say bytes.Buffer
			require.Equal(t, program.Usage, run(t.Context(), tt.args, &out, &say))
			require.Contains(t, say.String(), tt.say)
			require.Empty(t, out.String())
		})
	}
}

func TestFailuresAreCounted(t *testing.T) {
	fleet := fleettest.New(1, fleettest.Config{TimeScale: 50})
	defer fleet.Close()
	fleet.SetFault(0, fleettest.Fault{Status: 400})
	var out, say bytes.Buffer
	require.Equal(t, program.Failed, run(t.Context(), []string{"-endpoints", fleet.URL(0), "-n", "3"}, &out, &say))
	r := lines(t, out.String())
	require.Contains(t, r["sessions"], "0 of 3 complete")
	require.Equal(t, "3", r["errors"])
	require.Contains(t, say.String(), "the first error: ")
}

func TestTools(t *testing.T) {
	for _, tool := range tools {
		require.True(t, json.Valid(tool.Function.Parameters.(json.RawMessage)), tool.Function.Name)
		answer := use(openai.FunctionCall{Name: tool.Function.Name, Arguments: `{"frame":"KB1017","part":"chain","model":"Wren Kids","day":"monday","hour":9}`})
		require.True(t, json.Valid([]byte(answer)), answer)
		require.NotContains(t, answer, "error", tool.Function.Name)
	}
	require.Contains(t, use(openai.FunctionCall{Name: "fly", Arguments: `{}`}), `no tool`)
	require.Contains(t, use(openai.FunctionCall{Name: "find_bicycle", Arguments: `{`}), `not valid`)
}
