package vllmsim

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
)

// embeddingSize is assumed: enough to tell texts apart in a test.
const embeddingSize = 16

// embeddings answers with unit vectors that depend on the text alone. The
// prompts go through the engine like others and end with their prefill.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model          string      `json:"model"`
		Input          promptInput `json:"input"`
		EncodingFormat string      `json:"encoding_format"`
		CacheSalt      *string     `json:"cache_salt"`
	}
	e := decode(w, r, &req)
	if e == nil && len(req.Input) == 0 {
		e = invalidBody("body.input", "Field required")
	}
	if e == nil && req.EncodingFormat != "" && req.EncodingFormat != "float" && req.EncodingFormat != "base64" {
		e = invalidBody("body.encoding_format", "Input should be 'float' or 'base64'")
	}
	var j *job
	if e == nil {
		j, e = s.newJob(s.requestID(r, "embd-"), &sampling{Model: req.Model, CacheSalt: req.CacheSalt}, req.Input)
	}
	if e != nil {
		writeError(w, e)
		return
	}
	for i := range j.work {
		j.choices[i].length, j.work[i].OutputTokens = 0, 0
	}
	s.serve(w, r, j, vectors{base64: req.EncodingFormat == "base64"}, false)
}

// vectors writes embeddings; there are no streams of them.
type vectors struct {
	openAIText
	base64 bool
}

type vectorData struct {
	Index     int    `json:"index"`
	Object    string `json:"object"`
	Embedding any    `json:"embedding"`
}

func (f vectors) whole(j *job, _, _ []string, u usage) any {
	a := struct {
		ID      string       `json:"id"`
		Object  string       `json:"object"`
		Created int64        `json:"created"`
		Model   string       `json:"model"`
		Data    []vectorData `json:"data"`
		Usage   usage        `json:"usage"`
	}{ID: j.id, Object: "list", Created: j.created, Model: j.model, Usage: u}
	for i, c := range j.choices {
		v := vector(c.seed)
		d := vectorData{Index: i, Object: "embedding", Embedding: v}
		if f.base64 {
			var b bytes.Buffer
			binary.Write(&b, binary.LittleEndian, v)
			d.Embedding = base64.StdEncoding.EncodeToString(b.Bytes())
		}
		a.Data = append(a.Data, d)
	}
	return a
}

func vector(seed uint64) []float32 {
	v := make([]float32, embeddingSize)
	var norm float64
	for i := range v {
		x := float64(mix(seed+uint64(i)))/math.MaxUint64 - .5
		v[i] = float32(x)
		norm += x * x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(norm))
	}
	return v
}
