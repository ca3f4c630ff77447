package vllmsim

import (
	"strings"
	"testing"
)

// BenchmarkReplay is an hour of the Mooncake conversation trace on eight
// engines; with -benchtime 1x it says how long one policy takes.
func BenchmarkReplay(b *testing.B) {
	lines := loadTrace(b)
	for b.Loop() {
		replayRoundRobin(b, lines, 8, Config{BlockTokens: 512, CacheTokens: 1_000_000, MaxModelLen: 999_000, DecodeStretch: 64})
	}
}

func BenchmarkChatPrompt(b *testing.B) {
	body := []byte(`{"messages":[{"role":"system","content":"` + strings.Repeat("Some words of a system prompt. ", 2000) + `"},{"role":"user","content":"Hi"}]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := ChatPrompt(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTokenize(b *testing.B) {
	text := strings.Repeat("Some words of a system prompt. ", 2000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Tokenize(text)
	}
}
