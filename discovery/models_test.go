package discovery

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseModels(t *testing.T) {
	got, err := parseModels([]byte(`{"object":"list","data":[{"id":"m","root":"m","max_model_len":4096},{"id":"b-lora","parent":"m"},{"id":"m"},{"x":1}]}`))
	require.NoError(t, err)
	assert.Equal(t, []string{"b-lora", "m"}, got, "sorted, each once, adapters too")
	for _, bad := range []string{``, `null`, `{}`, `{"data":[]}`, `{"data":{}}`, `{"data":[{"id":7}]}`, `<html>`, `{"data":[{"id":"m"}]`} {
		_, err := parseModels([]byte(bad))
		assert.ErrorContains(t, err, "models: the list is", bad)
	}
}

func TestModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		f.says("a:1 /v1/models", 200, `{"data":[{"id":"m"},{"id":"lora"}]}`)
		o := probing(t, f, "http://a:1")
		o.ModelsInterval, o.HealthInterval = 0, -1
		changes := 0
		o.OnChange = func([]Member) { changes++ }
		w := watch(t, o)
		synctest.Wait()
		known := []string{"lora", "m"}
		require.Equal(t, known, w.Members()[0].Models)
		require.NoError(t, w.Members()[0].ModelsErr)

		// Nothing learnt: the last list stands.
		for what, change := range map[string]func(){
			"status 500":                func() { f.says("a:1 /v1/models", 500, "") },
			"connection refused":        func() { f.fails("a:1 /v1/models", errRefused) },
			"redirects are not":         func() { f.says("a:1 /v1/models", 302, "") },
			"is not as expected":        func() { f.says("a:1 /v1/models", 200, "<html>") },
			"is empty":                  func() { f.says("a:1 /v1/models", 200, `{"data":[]}`) },
			"longer than 1048576 bytes": func() { f.says("a:1 /v1/models", 200, `{"data":[`+strings.Repeat(" ", 1<<20)+`{"id":"x"}]}`) },
		} {
			change()
			advance(time.Minute)
			assert.Equal(t, known, w.Members()[0].Models, what)
			assert.ErrorContains(t, w.Members()[0].ModelsErr, what)
		}
		// An answer that says nothing: every model is eligible.
		for status, what := range map[int]string{401: "API key is missing or wrong", 403: "API key", 404: "no list of models"} {
			f.says("a:1 /v1/models", status, "")
			advance(time.Minute)
			assert.Nil(t, w.Members()[0].Models, what)
			assert.ErrorContains(t, w.Members()[0].ModelsErr, what)
		}
		before := changes
		f.says("a:1 /v1/models", 200, `{"data":[{"id":"m"}]}`)
		advance(time.Hour)
		assert.Equal(t, []string{"m"}, w.Members()[0].Models)
		assert.NoError(t, w.Members()[0].ModelsErr)
		require.NoError(t, w.Close())
		assert.Equal(t, 1, changes-before)
		assert.InDelta(t, 3600/30+10, f.asked("a:1 /v1/models"), 30)
	})
}

func TestRefreshReadsTheModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		f.says("a:1 /v1/models", 200, `{"data":[{"id":"m"}]}`)
		o := probing(t, f, "http://a:1")
		o.ModelsInterval = time.Hour
		w := watch(t, o)
		advance(10 * time.Second)
		f.says("a:1 /v1/models", 200, `{"data":[{"id":"m"},{"id":"new"}]}`)
		for range 100 {
			w.Refresh()
		}
		synctest.Wait()
		assert.Equal(t, []string{"m", "new"}, w.Members()[0].Models)
		advance(time.Minute)
		assert.LessOrEqual(t, f.asked("a:1 /v1/models"), 3)
	})
}

func TestARecoveredEngineIsAskedForItsModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		f.says("a:1 /v1/models", 200, `{"data":[{"id":"old"}]}`)
		o := probing(t, f, "http://a:1")
		o.ModelsInterval = time.Hour
		w := watch(t, o)
		advance(time.Second)
		f.fails("a:1 /health", errRefused)
		advance(time.Minute)
		require.Equal(t, "unhealthy", health(w))
		f.says("a:1 /v1/models", 200, `{"data":[{"id":"new"}]}`)
		f.says("a:1 /health", 200, "")
		advance(10 * time.Second)
		assert.Equal(t, []string{"new"}, w.Members()[0].Models)
	})
}

func TestTheKeyGoesToModelsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		o := probing(t, f, "http://a:1")
		o.ModelsInterval = 0
		o.Header = http.Header{"Authorization": {"Bearer s3cret"}}
		watch(t, o)
		o.Header.Set("Authorization", "changed later")
		advance(10 * time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		assert.Equal(t, "Bearer s3cret", f.headers["a:1 /v1/models"].Get("Authorization"))
		assert.Empty(t, f.headers["a:1 /health"].Get("Authorization"))
		assert.Equal(t, "prefixwise-discovery", f.headers["a:1 /health"].Get("User-Agent"))
	})
}
