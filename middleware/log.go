package middleware

import (
	"context"
	"errors"
	"log/slog"
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

// withoutText returns the text of an error without what an engine has said,
// since engines echo their input.
func withoutText(err error) string {
	var e *Error
	if !errors.As(err, new(reported)) || !errors.As(err, &e) {
		return err.Error()
	}
	clean := *e
	clean.Err = errors.New("the engine reported an error in the stream")
	return clean.Error()
}
