package benchbody

import (
	"bytes"
	"testing"

	"github.com/prefixwise/prefixwise/canon"
)

// The body must be what it claims to be: of that size, a fifth to a third tools,
// as dense in escapes as recorded agents, and not canonical.
func TestChat(t *testing.T) {
	body := Chat(64<<10, 12)
	if len(body) < 60<<10 || len(body) > 66<<10 {
		t.Errorf("%d bytes", len(body))
	}
	if share := float64(len(tools(64<<10, 12))) / float64(len(body)); share > 0.3 || share < 0.2 {
		t.Errorf("tools are %.2f of the bytes", share)
	}
	if every := len(body) / bytes.Count(body, []byte(`\`)); every < 15 || every > 30 {
		t.Errorf("an escape for every %d bytes", every)
	}
	r, err := canon.Canonicalize(canon.Chat, body)
	if err != nil || r.Diagnosis.Code != canon.OK {
		t.Fatal(err, r.Diagnosis)
	}
	if bytes.Equal(r.Body, body) {
		t.Error("already canonical")
	}
}
