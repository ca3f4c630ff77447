package middleware

import (
	"context"
	"errors"
	"log/slog"
	"net/textproto"
	"strings"
)

// Log writes what becomes of each call to l: a failed call and a retry at
// level Warn, everything else at level Debug. It never writes prompts, keys
// or bodies.
func Log(l *slog.Logger) Middleware {
	ctx := context.Background()
	return Observe(&Trace{
		Picked: func(p Picked) {
			if l.Enabled(ctx, slog.LevelDebug) {
				l.LogAttrs(ctx, slog.LevelDebug, "picked endpoint", slog.String("endpoint", p.Endpoint),
					slog.String("reason", p.Reason), slog.Int("attempt", p.Attempt))
			}
		},
		Retrying: func(r Retrying) {
			attrs := []slog.Attr{slog.String("endpoint", r.Endpoint), slog.Int("attempt", r.Attempt),
				slog.Int("status", r.Status), slog.Duration("wait", r.Wait)}
			if r.Err != nil {
				attrs = append(attrs, slog.String("error", withoutText(r.Err)))
			}
			l.LogAttrs(ctx, slog.LevelWarn, "retrying elsewhere", attrs...)
		},
		Done: func(d Done) {
			level := slog.LevelDebug
			if d.Err != nil {
				level = slog.LevelWarn
			}
			if !l.Enabled(ctx, level) {
				return
			}
			attrs := []slog.Attr{slog.String("endpoint", d.Endpoint), slog.String("api", d.API.String()),
				slog.Int("status", d.Status), slog.Int("attempts", d.Attempts),
				slog.Int("prompt_tokens", d.PromptTokens), slog.Int("cached_tokens", d.CachedTokens),
				slog.Duration("first_byte", d.FirstByte), slog.Duration("total", d.Total)}
			if d.Err != nil {
				attrs = append(attrs, slog.String("error", withoutText(d.Err)))
			}
			l.LogAttrs(ctx, level, "call ended", attrs...)
		},
	})
}

// withoutText returns the text of an error without what has come over the
// connection: engines echo their input, and what is no HTTP may be the rest of an
// answer whose length was wrong. net/http quotes that.
func withoutText(err error) string {
	text := err.Error()
	var r reported
	if errors.As(err, &r) {
		text = strings.Replace(text, r.Error(), "the engine reported an error in the stream", 1)
	}
	var p textproto.ProtocolError
	if errors.As(err, &p) {
		text = strings.Replace(text, p.Error(), "malformed header or trailer", 1)
	}
	const broken = "transport connection broken: "
	if before, after, ok := strings.Cut(text, broken); ok {
		kind, _, _ := strings.Cut(after, ` "`)
		text = before + broken + kind
	}
	return text
}
