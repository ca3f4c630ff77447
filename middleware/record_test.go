package middleware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
)

func newRecorder(t testing.TB, w io.Writer, o RecorderOptions) *Recorder {
	t.Helper()
	r, err := NewRecorder(w, o)
	require.NoError(t, err)
	return r
}

func readRecords(t testing.TB, recording string) []Record {
	t.Helper()
	var all []Record
	for record, err := range ReadRecords(strings.NewReader(recording)) {
		require.NoError(t, err)
		all = append(all, record)
	}
	return all
}

// ended is a call with the given prompt, as a Recorder is told of it.
func ended(root uint64) Done {
	return Done{Start: time.Unix(1e9, 0), API: canon.Chat, Model: "m", Head: 1, Root: root, Status: 200,
		Boundaries:   []canon.Boundary{{Hash: 1, Offset: 10}, {Hash: root, Offset: 20}},
		PromptTokens: -1, CachedTokens: -1, CompletionTokens: -1}
}

func TestRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const usage = `"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}`
		fleet := newFakeFleet(t, nil)
		var out bytes.Buffer
		recorder := newRecorder(t, &out, RecorderOptions{})
		chain := Chain(Observe(recorder.Trace()))(fleet.chain(fleet.routing(), RetryOptions{Max: -1}))
		begin := time.Now()
		send := func(ctx context.Context, body string, answer func(*http.Request, int) (*http.Response, error)) {
			fleet.answer = answer
			if resp, err := post(ctx, chain, chatPath, body); err == nil {
				_, _ = readAll(resp)
				resp.Body.Close()
			}
		}
		send(WithHints(t.Context(), Hints{Session: "conversation", Tenant: "tenant"}), chat, func(*http.Request, int) (*http.Response, error) {
			<-time.After(1500 * time.Microsecond)
			return status(200, `{"choices":[{"finish_reason":"stop"}],`+usage+`}`)
		})
		send(t.Context(), chatStream, func(*http.Request, int) (*http.Response, error) {
			<-time.After(time.Second)
			slow := readerFunc(func([]byte) (int, error) { <-time.After(time.Second); return 0, io.EOF })
			return eventsFrom(io.MultiReader(strings.NewReader(hello), slow, strings.NewReader(stop+`data: {"choices":[],`+usage+"}\n\n"+done)))
		})
		send(t.Context(), chat, func(*http.Request, int) (*http.Response, error) { return status(422, `{"error":"no"}`) })
		send(t.Context(), chat, func(*http.Request, int) (*http.Response, error) { return nil, errors.New("broken") })
		ctx, cancel := context.WithCancel(t.Context())
		send(ctx, chat, func(*http.Request, int) (*http.Response, error) { cancel(); return nil, ctx.Err() })
		send(t.Context(), `{"model":"m","prompt_cache_key":"hello","messages":[{"role":"user","content":"other"}]}`, func(*http.Request, int) (*http.Response, error) {
			return status(200, `{}`)
		})
		fleet.answer = func(*http.Request, int) (*http.Response, error) { return status(200, `{}`) }
		req, _ := http.NewRequest(http.MethodGet, "http://fleet.test/v1/models", nil)
		_, err := chain.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, recorder.Close())

		for _, text := range []string{"hello", "other", "user", "conversation", `"tenant":"tenant`} {
			require.NotContains(t, out.String(), text)
		}
		require.True(t, strings.HasPrefix(out.String(), recordStart))
		got := readRecords(t, out.String())
		require.Len(t, got, 6, "a request without a prompt is not recorded")
		require.EqualValues(t, 6, recorder.Written())
		require.Zero(t, recorder.Dropped())

		want, err := canon.Canonicalize(canon.Chat, []byte(chat))
		require.NoError(t, err)
		bounds := []affinity.Boundary{}
		for _, b := range want.Boundaries {
			bounds = append(bounds, affinity.Boundary{Hash: b.Hash, Bytes: b.Offset})
		}
		first := got[0]
		require.NotZero(t, first.Session)
		require.NotZero(t, first.Tenant)
		require.NotEmpty(t, first.Endpoint)
		require.Equal(t, Record{
			Time: begin.UTC().Truncate(time.Microsecond), API: canon.Chat, Model: "m", Head: want.Head, Root: want.Root, Boundaries: bounds,
			Session: first.Session, Tenant: first.Tenant, Endpoint: first.Endpoint, Outcome: OutcomeOK, Status: 200,
			PromptTokens: 9, CachedTokens: 0, CompletionTokens: 2, Total: 1500 * time.Microsecond,
		}, first)
		require.True(t, got[1].Stream)
		require.Equal(t, bounds, got[1].Boundaries)
		require.Equal(t, []int{9, 0, 2}, []int{got[1].PromptTokens, got[1].CachedTokens, got[1].CompletionTokens})
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second}, []time.Duration{got[1].FirstByte, got[1].Total})
		require.Equal(t, first.Time.Add(1500*time.Microsecond), got[1].Time)
		require.Zero(t, got[1].Session)
		require.Equal(t, OutcomeRefused, got[2].Outcome)
		require.Equal(t, 422, got[2].Status)
		require.Equal(t, -1, got[2].PromptTokens, "absent is not zero")
		require.Equal(t, OutcomeFailed, got[3].Outcome)
		require.Zero(t, got[3].Status)
		require.Equal(t, OutcomeCanceled, got[4].Outcome)
		require.NotZero(t, got[5].CacheKey)
		require.NotEqual(t, want.Root, got[5].Root)
	})
}

// A slow writer holds nothing up: what does not fit in the queue is dropped.
func TestRecorderNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		free := make(chan struct{})
		recorder := newRecorder(t, writerFunc(func(p []byte) (int, error) { <-free; return out.Write(p) }), RecorderOptions{Queue: 2})
		recorder.take(ended(1))
		synctest.Wait() // it is being written
		for i := range 5 {
			recorder.take(ended(uint64(10 + i)))
		}
		require.EqualValues(t, 3, recorder.Dropped())
		close(free)
		require.NoError(t, recorder.Close())
		require.NoError(t, recorder.Close())
		recorder.take(ended(99))
		require.EqualValues(t, 4, recorder.Dropped(), "what comes after Close is dropped")
		require.EqualValues(t, 3, recorder.Written())
		got := readRecords(t, out.String())
		require.Len(t, got, 3)
		require.EqualValues(t, 11, got[2].Root)
	})
}

func TestRecorderConcurrently(t *testing.T) {
	var out bytes.Buffer
	recorder := newRecorder(t, &out, RecorderOptions{Queue: 100})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				recorder.take(ended(7))
			}
		})
	}
	all.Go(func() { _ = recorder.Close() })
	all.Wait()
	require.EqualValues(t, 400, recorder.Written()+recorder.Dropped())
	require.Len(t, readRecords(t, out.String()), int(recorder.Written()))
}

// The first error is told, once; a line that was cut spoils no other.
func TestRecorderWriterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var told []error
		full := errors.New("disk full")
		writes := 0
		recorder := newRecorder(t, writerFunc(func(p []byte) (int, error) {
			switch writes++; writes {
			case 2:
				n, _ := out.Write(p[:40])
				return n, full
			case 3:
				return 0, full
			}
			return out.Write(p)
		}), RecorderOptions{OnError: func(err error) { told = append(told, err) }})
		for i := range 5 {
			recorder.take(ended(uint64(i)))
			synctest.Wait()
		}
		require.ErrorIs(t, recorder.Close(), full)
		require.Equal(t, []error{full}, told)
		require.EqualValues(t, 3, recorder.Written())
		require.EqualValues(t, 2, recorder.Dropped())
		var roots []uint64
		var wrong []error
		for record, err := range ReadRecords(strings.NewReader(out.String())) {
			if err != nil {
				wrong = append(wrong, err)
			} else {
				roots = append(roots, record.Root)
			}
		}
		require.Equal(t, []uint64{0, 3, 4}, roots)
		require.Len(t, wrong, 1)
		require.ErrorContains(t, wrong[0], "line 2")
	})
}

// Whoever is told of an error may close the Recorder on the spot.
func TestRecorderIsClosedByOnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		var recorder *Recorder
		var closed error
		recorder = newRecorder(t, writerFunc(func([]byte) (int, error) { return 0, full }),
			RecorderOptions{OnError: func(error) { closed = recorder.Close() }})
		recorder.take(ended(1))
		synctest.Wait()
		require.ErrorIs(t, closed, full)
	})
}

// With a salt equal prompts are still equal, and nobody can tell which they are.
func TestRecorderSalt(t *testing.T) {
	record := func(salt string) Record {
		var out bytes.Buffer
		recorder := newRecorder(t, &out, RecorderOptions{Salt: []byte(salt)})
		d := ended(1) // the root is the head here
		d.Session, d.Tenant = "x", "x"
		recorder.take(d)
		require.NoError(t, recorder.Close())
		return readRecords(t, out.String())[0]
	}
	plain, salted := record(""), record("0123456789abcdef")
	require.EqualValues(t, 1, plain.Head)
	require.Equal(t, salted, record("0123456789abcdef"))
	other := record("0123456789abcdeg")
	for _, two := range [][2]Record{{plain, salted}, {salted, other}} {
		require.NotEqual(t, two[0].Head, two[1].Head)
		require.NotEqual(t, two[0].Boundaries, two[1].Boundaries)
		require.NotEqual(t, two[0].Session, two[1].Session)
	}
	require.Equal(t, salted.Head, salted.Root)
	require.Equal(t, salted.Head, salted.Boundaries[0].Hash)
	require.NotEqual(t, salted.Session, salted.Tenant, "one name in two roles is two names")
}

func TestRecorderWrongOptions(t *testing.T) {
	_, err := NewRecorder(nil, RecorderOptions{})
	require.ErrorContains(t, err, "RecordFile")
	_, err = NewRecorder(io.Discard, RecorderOptions{Queue: -1})
	require.ErrorContains(t, err, "use 0")
	_, err = NewRecorder(io.Discard, RecorderOptions{Salt: []byte("short")})
	require.ErrorContains(t, err, "16 random ones")
}

// Of very many boundaries the first and the last are kept, and the line fits in
// what the reader takes.
func TestRecordOfManyBoundaries(t *testing.T) {
	var out bytes.Buffer
	recorder := newRecorder(t, &out, RecorderOptions{})
	d := ended(1)
	d.Model = strings.Repeat("m", 1<<20)
	d.Boundaries = make([]canon.Boundary, 1<<17)
	for i := range d.Boundaries {
		d.Boundaries[i] = canon.Boundary{Hash: 1 << 63, Offset: i << 14}
	}
	recorder.take(d)
	require.NoError(t, recorder.Close())
	require.Less(t, out.Len(), maxRecordLine/2)
	got := readRecords(t, out.String())[0]
	require.Len(t, got.Boundaries, maxRecordBoundaries)
	require.Equal(t, 4094<<14, got.Boundaries[4094].Bytes)
	require.Equal(t, (1<<17-1)<<14, got.Boundaries[4095].Bytes)
}

const goodRecord = `{"v":1,"time":"2026-01-02T03:04:05Z","api":"chat","head":"0000000000000001","root":"0000000000000002","outcome":"ok","total_ms":1.5}`

func TestReadRecords(t *testing.T) {
	good := Record{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), API: canon.Chat, Head: 1, Root: 2, Outcome: OutcomeOK,
		PromptTokens: -1, CachedTokens: -1, CompletionTokens: -1, Total: 1500 * time.Microsecond}
	for _, recording := range []string{
		goodRecord + "\n" + goodRecord,
		goodRecord + "\n\n" + goodRecord + "\r\n",
		goodRecord + "\n" + goodRecord + "\n" + goodRecord[:50],
		strings.Replace(goodRecord, `"outcome"`, `"later":{},"outcome"`, 1) + "\n" + goodRecord,
	} {
		require.Equal(t, []Record{good, good}, readRecords(t, recording))
	}
	require.Empty(t, readRecords(t, ""))

	for wrong, want := range map[string]string{
		`{"v":1`:                         "unexpected end",
		`{}`:                             `is this a recording?`,
		`{"timestamp":1,"hash_ids":[1]}`: `is this a recording?`,
		`[]`:                             "array",
		`null`:                           `is this a recording?`,
		strings.Replace(goodRecord, "2026", "20x6", 1):                                                 "20x6",
		strings.Replace(goodRecord, "chat", "chatter", 1):                                              "chatter",
		strings.Replace(goodRecord, `"ok"`, `"fine"`, 1):                                               "fine",
		strings.Replace(goodRecord, "0000000000000001", "1", 1):                                        "16 hexadecimal digits",
		strings.Replace(goodRecord, "1.5", "-1", 1):                                                    "total_ms",
		strings.Replace(goodRecord, "1.5", "1e300", 1):                                                 "total_ms",
		strings.Replace(goodRecord, "}", `,"prompt_tokens":-1}`, 1):                                    "less than none",
		strings.Replace(goodRecord, "}", `,"boundaries":[{"bytes":-1,"hash":"0000000000000001"}]}`, 1): "-1 bytes",
	} {
		n := 0
		for record, err := range ReadRecords(strings.NewReader(goodRecord + "\n" + wrong + "\n" + goodRecord + "\n")) {
			switch n++; n {
			case 2:
				var failed *RecordError
				require.ErrorAs(t, err, &failed, wrong)
				require.Equal(t, 2, failed.Line)
				require.ErrorContains(t, err, want)
				require.Zero(t, record)
			default:
				require.NoError(t, err)
			}
		}
		require.Equal(t, 3, n, "reading goes on: %s", wrong)
	}

	for _, err := range ReadRecords(strings.NewReader(`{"v":2,"time":[],"head":5}` + "\n")) {
		var newer *RecordVersionError
		require.ErrorAs(t, err, &newer)
		require.Equal(t, 2, newer.Version)
		require.ErrorContains(t, err, "line 1")
	}
}

// After an error of the source, or a line that has no end, nothing more comes.
func TestReadRecordsEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, source := range []io.Reader{
		io.MultiReader(strings.NewReader(goodRecord+"\n"), iotest.ErrReader(broken)),
		io.MultiReader(strings.NewReader(goodRecord+"\n"), readerFunc(func(p []byte) (int, error) { clear(p); return len(p), nil })),
	} {
		var errs []error
		for _, err := range ReadRecords(source) {
			errs = append(errs, err)
		}
		require.Len(t, errs, 2)
		require.NoError(t, errs[0])
		require.ErrorContains(t, errs[1], "line 2")
	}
	for record, err := range ReadRecords(strings.NewReader(goodRecord + "\n" + goodRecord + "\n")) {
		require.NoError(t, err)
		require.EqualValues(t, 2, record.Root)
		break
	}
}

// Whatever a file has in it: no panic, errors name a line, and what is read is
// written and read again as it was.
func FuzzReadRecords(f *testing.F) {
	f.Add(goodRecord + "\n" + goodRecord)
	f.Add(strings.Replace(goodRecord, "}", `,"boundaries":[{"hash":"00000000000000ff","bytes":7}],"cached_tokens":0,"session":"0000000000000003"}`, 1))
	f.Add("{\"v\":1\n{\"v\":2}\n\n\x00")
	f.Fuzz(func(t *testing.T, recording string) {
		lines := strings.Count(recording, "\n") + 1
		seen := 0
		for record, err := range ReadRecords(strings.NewReader(recording)) {
			seen++
			if err != nil {
				var failed *RecordError
				require.ErrorAs(t, err, &failed)
				require.LessOrEqual(t, failed.Line, lines)
				continue
			}
			if len(record.Model) > maxRecordName || !(record.Time.Year() > 0 && record.Time.Year() < 9999) {
				continue
			}
			line, err := record.MarshalJSON()
			require.NoError(t, err)
			again := readRecords(t, string(line))
			require.Len(t, again, 1)
			record.Time = record.Time.UTC().Truncate(time.Microsecond)
			require.Equal(t, record, again[0])
		}
		require.LessOrEqual(t, seen, lines)
	})
}

// What a call pays is the first; the second is done beside it.
func BenchmarkRecorder(b *testing.B) {
	d := ended(1)
	d.Boundaries = make([]canon.Boundary, 40)
	for i := range d.Boundaries {
		d.Boundaries[i] = canon.Boundary{Hash: uint64(i) << 56, Offset: i << 10}
	}
	b.Run("call", func(b *testing.B) {
		recorder := newRecorder(b, io.Discard, RecorderOptions{Queue: max(b.N, 1)})
		b.ReportAllocs()
		for b.Loop() {
			recorder.take(d)
		}
		b.StopTimer()
		require.NoError(b, recorder.Close())
	})
	for _, salt := range []string{"", "0123456789abcdef"} {
		b.Run(fmt.Sprintf("write/salt=%t", salt != ""), func(b *testing.B) {
			recorder := newRecorder(b, io.Discard, RecorderOptions{Salt: []byte(salt)})
			defer recorder.Close()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = recorder.record(&d).MarshalJSON()
			}
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
