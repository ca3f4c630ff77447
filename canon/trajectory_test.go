package canon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// recordedSessions reads recorded agent sessions: each a list of messages.
func recordedSessions(t testing.TB, most int) [][]json.RawMessage {
	data, err := os.ReadFile(dataFile(t, "taubench", "gpt-4o-airline.json"))
	require.NoError(t, err)
	var sessions []struct {
		Traj []json.RawMessage `json:"traj"`
	}
	require.NoError(t, json.Unmarshal(data, &sessions))
	var all [][]json.RawMessage
	for _, s := range sessions[:min(most, len(sessions))] {
		all = append(all, s.Traj)
	}
	return all
}

// Each turn of a recorded session, with tools in a random order each time, is a
// byte prefix of the next one and shares all its boundaries with it.
func TestTrajectoriesKeepTheirPrefix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := newCanon(t, canon.Options{})
	for n, messages := range recordedSessions(t, 10) {
		var prefix []byte
		bounds := []canon.Boundary{}
		for turn := 1; turn <= len(messages); turn++ {
			var b bytes.Buffer
			b.WriteString(`{"messages":[`)
			for i, m := range messages[:turn] {
				if i > 0 {
					b.WriteString(", ")
				}
				b.Write(respace(rng, m))
			}
			b.WriteString(`],"tools":[`)
			for i, at := range rng.Perm(12) {
				if i > 0 {
					b.WriteByte(',')
				}
				b.WriteString(airlineTool(rng, at))
			}
			fmt.Fprintf(&b, `],"model":"m","temperature":0.%d}`, turn)
			r, err := c.Canonicalize(canon.Chat, b.Bytes())
			require.NoError(t, err)
			require.Equal(t, canon.OK, r.Diagnosis.Code, r.Diagnosis)
			require.True(t, bytes.HasPrefix(r.Body, prefix), "session %d turn %d", n, turn)
			require.Equal(t, bounds, r.Boundaries[:len(bounds)], "session %d turn %d", n, turn)
			prefix, bounds = bytes.Clone(r.Body[:messagesEnd(r.Body)]), r.Boundaries

			in, err := decode(b.Bytes())
			require.NoError(t, err)
			require.Equal(t, expected(in, canon.Stable).String(), mustDecode(t, r.Body).String())
		}
	}
}

// respace spells a message as another encoder would: its members in another
// order, with or without spaces and HTML escapes.
func respace(rng *rand.Rand, message json.RawMessage) []byte {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(message, &members); err != nil {
		panic(err)
	}
	var names []string
	for name := range members {
		names = append(names, name)
	}
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			b.WriteString([]string{",", ", "}[rng.IntN(2)])
		}
		value := []byte(members[name])
		if rng.IntN(2) == 0 {
			var v bytes.Buffer
			json.HTMLEscape(&v, value)
			value = v.Bytes()
		}
		fmt.Fprintf(&b, "%s: %s", quote(name), value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func airlineTool(rng *rand.Rand, n int) string {
	keywords := []string{
		`"type":"object"`,
		fmt.Sprintf(`"properties":{"user_id":{"type":"string","description":"The id, such as 'sara_doe_%d'."},"amount":{"type":"number"}}`, n),
		[]string{`"required":["user_id","amount"]`, `"required":["amount","user_id"]`}[rng.IntN(2)],
	}
	rng.Shuffle(len(keywords), func(i, j int) { keywords[i], keywords[j] = keywords[j], keywords[i] })
	function := []string{
		fmt.Sprintf(`"name":"tool_%d"`, n),
		`"description":"Looks up a reservation."`,
		`"parameters":{` + keywords[0] + `,` + keywords[1] + `,` + keywords[2] + `}`,
	}
	rng.Shuffle(len(function), func(i, j int) { function[i], function[j] = function[j], function[i] })
	return `{"type":"function","function":{` + function[0] + `,` + function[1] + `,` + function[2] + `}}`
}
