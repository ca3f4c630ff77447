package client_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/middleware"
)

// Another client goes on where the first one stopped, on the same instance, and
// forks of forks too.
func TestSessionRestore(t *testing.T) {
	_, connect := newFleet(t, 8)
	idle := client.WithStrategy(client.BoundedLoad) // knows nothing but the key
	first, second := connect(idle), connect(idle)
	for i := range 6 {
		s := first.Session(fmt.Sprint("session ", i))
		require.NoError(t, s.Append(system("head"), user("hello")))
		home := placeOf(t, s, "sim")
		for _, one := range []*client.Session{s, s.Fork(fmt.Sprint("branch ", i))} {
			data, err := json.Marshal(one)
			require.NoError(t, err)
			restored, err := second.RestoreSession(data)
			require.NoError(t, err)
			require.Same(t, restored, second.Session(one.ID()))
			require.Equal(t, one.Messages(), restored.Messages())
			again, err := json.Marshal(restored)
			require.NoError(t, err)
			require.JSONEq(t, string(data), string(again))
			require.Equal(t, home, placeOf(t, restored, "sim"))
		}
	}
}

// A session goes where its last answer came from, not where its id would have
// it, and says so in what it exports.
func TestSessionCarriesItsPlacement(t *testing.T) {
	fleet, connect := newFleet(t, 5)
	c := connect()
	places := map[string]bool{}
	for i := range fleet.Len() {
		token := middleware.PlacementToken(strings.TrimSuffix(fleet.URL(i), "/v1"))
		s, err := c.RestoreSession(fmt.Appendf(nil, `{"version":1,"id":"one","placement":%q,"messages":[{"role":"user","content":"%d%s"}]}`,
			token, i, strings.Repeat("a long story ", 1000)))
		require.NoError(t, err)
		places[placeOf(t, s, "sim")] = true
		require.Contains(t, fleet.URL(i), placeOf(t, s, "sim"))
		data, err := json.Marshal(s)
		require.NoError(t, err)
		require.Contains(t, string(data), `"placement":"`+token+`"`)
	}
	require.Len(t, places, fleet.Len())
}

// What the engine is sent is the same after a restoration, a half-done batch
// goes on, and a change of the history is still noticed.
func TestSessionRestoreKeepsEverything(t *testing.T) {
	engine := newScripted(t)
	engine.then(plain(weird), plain(calling("a", "b")))
	c, warnings, _ := watched(t, engine)
	s := c.Session("x")
	require.NoError(t, s.Append(user("go")))
	_, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.NoError(t, s.Result("c1", "found <it>"))
	_, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.NoError(t, s.Result("b", "2"))

	restored := func() *client.Session {
		data, err := json.Marshal(s)
		require.NoError(t, err)
		r, err := c.RestoreSession(data)
		require.NoError(t, err)
		return r
	}
	r := restored()
	var e *client.ToolResultError
	require.ErrorAs(t, r.Result("b", "again"), &e)
	for _, one := range []*client.Session{s, r} {
		require.NoError(t, one.Result("a", "1"))
		_, err = one.Complete(t.Context(), anyModel)
		require.NoError(t, err)
	}
	sent := engine.requests()
	require.Equal(t, string(sent[len(sent)-2]), string(sent[len(sent)-1]))
	require.Empty(t, *warnings)

	r = restored()
	m := r.Messages()
	m[0].Content = "stop"
	require.NoError(t, r.Use(append(m, user("on"))))
	_, err = r.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Len(t, *warnings, 1)
}

// openBatch claims that a result was sent while its batch is open.
const openBatch = `{"version":1,"id":"x","sent":2,"messages":[{"role":"assistant","tool_calls":[{"id":"a"},{"id":"b"}]},` +
	`{"role":"tool","tool_call_id":"a","content":""}]}`

func TestSessionRestoreErrors(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1")
	for data, say := range map[string]string{
		``:                       "cannot restore",
		`[]`:                     "cannot restore",
		`{}`:                     "version or id is missing",
		`{"version":1}`:          "version or id is missing",
		`{"version":2,"id":"x"}`: "version 2 is later than 1",
		`{"version":1,"id":"x","messages":[{"role":""}]}`:                                     "no role",
		`{"version":1,"id":"x","messages":[7]}`:                                               "no role",
		`{"version":1,"id":"x","messages":[{"role":"tool","tool_call_id":"q"}]}`:              `"q"`,
		`{"version":1,"id":"x","messages":[],"results":[{"role":"tool","tool_call_id":"q"}]}`: `"q"`,
		`{"version":1,"id":"x","messages":[{"role":"user"}],"sent":2}`:                        "2 of 1",
		openBatch: "2 of 1",
		`{"version":1,"id":"x","messages":[],"sent":-1}`: "-1 of 0",
	} {
		_, err := c.RestoreSession([]byte(data))
		require.ErrorContains(t, err, say, data)
	}
	s, err := c.RestoreSession([]byte(`{"version":1,"id":"x","messages":[]}`))
	require.NoError(t, err)
	require.Empty(t, s.Messages())
}

func FuzzRestoreSession(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":"x","key":"k","placement":"p","messages":[{"role":"user","content":"a"},` + weirdSent + `],"results":[],"sent":1}`))
	f.Add([]byte(`{"version":1,"id":"x","messages":[` + calling("a", "b") + `],"results":[{"role":"tool","tool_call_id":"b"}]}`))
	f.Add([]byte(openBatch))
	c, err := client.New(client.WithEndpoints("http://127.0.0.1:1"), client.WithHealthChecks(0), client.WithModelChecks(0))
	require.NoError(f, err)
	f.Cleanup(func() { c.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := c.RestoreSession(data)
		if err != nil {
			return
		}
		once, err := json.Marshal(s)
		require.NoError(t, err)
		again, err := c.RestoreSession(once)
		require.NoError(t, err)
		twice, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
		s.Messages()
	})
}
