package integration

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// pageShots is where the screenshots go; "" keeps none.
var pageShots = flag.String("page.screenshots", os.Getenv("PAGE_SCREENSHOTS"), "folder for the screenshots of the status page")

// pageLimit bounds every wait for the page: it must never be reached, also on a loaded machine.
const pageLimit = 2 * time.Minute

// startBrowser starts chromium. Without one the test is skipped, loudly, and fails in continuous integration.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	switch {
	case path != "":
	case os.Getenv("CI") == "true":
		t.Fatal("BROWSER TEST DID NOT RUN: there is no chromium")
	default:
		t.Skip("BROWSER TEST DID NOT RUN: there is no chromium (Debian: apt-get install chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WSURLReadTimeout(pageLimit))
	if os.Geteuid() == 0 {
		// Chromium refuses to run as root with its sandbox, and continuous integration is root in its container. The pages it
		// opens are this test's own.
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("close %s: %v", path, err)
		}
	})
	return ctx
}

// tab is one page that is open. It takes note of every request and of everything that the console complains about.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	bases    []string // of what may be asked
	silent   bool     // no answer, or none without a token, is part of the test now
	problems []string
}

// openTab opens a daemon's page on a screen of 1280 × 900.
func openTab(t *testing.T, browser context.Context, base string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	b := &tab{t: t, ctx: ctx}
	t.Cleanup(cancel)
	t.Cleanup(b.verdict)
	if err := chromedp.Listen(ctx, b.saw); err != nil {
		t.Fatal(err)
	}
	command(b, network.Enable, network.EnableParams{})
	command(b, log.Enable, cdp.Empty{})
	command(b, runtime.Enable, cdp.Empty{})
	b.screen(1280, 900, 1)
	b.theme("light")
	b.open(base)
	return b
}

func (b *tab) open(base string) {
	b.t.Helper()
	b.mu.Lock()
	b.bases = append(b.bases, base)
	b.mu.Unlock()
	b.run(chromedp.Navigate(base))
}

func (b *tab) saw(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	note := func(format string, args ...any) { b.problems = append(b.problems, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; u != "data:," && !b.mayAsk(u) { // data:, is the icon that saves asking for /favicon.ico
			note("a request to elsewhere: %s", u)
		}
	case *runtime.EventExceptionThrown:
		note("an exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		note("console.%s: %v", e.Type, e.Args)
	case *log.EventEntryAdded:
		if b.silent && e.Entry.Source == log.EntrySourceNetwork && strings.HasSuffix(e.Entry.URL, "/status") {
			return // the browser's own line for a request that fails, as it must
		}
		note("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	}
}

func (b *tab) mayAsk(u string) bool {
	for _, base := range b.bases {
		if strings.HasPrefix(u, base) {
			return true
		}
	}
	return false
}

// silence says that the daemon will not answer from now on, or will.
func (b *tab) silence(now bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent = now
}

// verdict fails on whatever was noted.
func (b *tab) verdict() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Error(p)
	}
}

func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageLimit)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func result[R any](b *tab, a chromedp.Action[R]) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageLimit)
	defer cancel()
	r, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func command[P, R any](b *tab, c cdp.Command[P, R], params P) R {
	b.t.Helper()
	return result(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) })
}

// sees waits until an expression is true in the page.
func (b *tab) sees(what, expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageLimit)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(0))); err != nil {
		b.shot("failed")
		b.t.Fatalf("the page does not come to show %s (%s): %v\n%s", what, expression, err, b.text("document.body.innerText.slice(0, 3000)"))
	}
}

// says waits until an element's text holds another.
func (b *tab) says(selector, text string) {
	b.t.Helper()
	b.sees(fmt.Sprintf("%q in %s", text, selector), fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))", selector, text))
}

// is waits until the first such element's text is no more and no less.
func (b *tab) is(selector, text string) {
	b.t.Helper()
	b.sees(fmt.Sprintf("%s that is %q", selector, text), fmt.Sprintf("document.querySelector(%q)?.textContent === %q", selector, text))
}

// text evaluates an expression that is a text.
func (b *tab) text(expression string) string {
	b.t.Helper()
	return result(b, chromedp.Evaluate[string](expression))
}

func (b *tab) number(expression string) int {
	b.t.Helper()
	return result(b, chromedp.Evaluate[int](expression))
}

func (b *tab) theme(scheme string) {
	b.t.Helper()
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

func (b *tab) screen(width, height int64, scale float64) {
	b.t.Helper()
	command(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: scale, Mobile: scale > 1})
}

// shot takes a picture of the whole page when there is a folder for it.
func (b *tab) shot(name string) { b.t.Helper(); b.keep(name, chromedp.FullScreenshot(100)) }

func (b *tab) keep(name string, picture chromedp.Action[[]byte]) {
	b.t.Helper()
	if *pageShots == "" {
		return
	}
	image := result(b, picture)
	if err := os.MkdirAll(*pageShots, 0o755); err != nil {
		b.t.Fatal(err)
	}
	file := filepath.Join(*pageShots, name+".png")
	if err := os.WriteFile(file, image, 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("screenshot: %s (%d bytes)", file, len(image))
}

// fits fails when something is wider than the screen.
func (b *tab) fits(width int) {
	b.t.Helper()
	if n := b.number("document.documentElement.scrollWidth"); n > width {
		b.t.Errorf("the page is %d px wide on a screen of %d: %s", n, width,
			b.text(fmt.Sprintf("[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > %d).map(e => e.tagName + '.' + e.className).join(' ')", width)))
	}
}

func pageURL(listen string) string {
	return (&url.URL{Scheme: "http", Host: listen, Path: "/"}).String()
}
