package server

import (
	"embed"
	"net/http"
)

// pageFiles are the status page: no build step, nothing from elsewhere.
//
//go:embed page/*.html page/*.css page/*.js
var pageFiles embed.FS

// pagePolicy lets the page run its own script and nothing else, whatever a topic name or an error text holds.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page serves the status page's files. They hold no data: what they show they ask of /status.
func page(mux *http.ServeMux) {
	for path, file := range map[string]string{"GET /{$}": "index.html", "GET /page.css": "page.css",
		"GET /page.js": "page.js", "GET /view.js": "view.js", "GET /rates.js": "rates.js", "GET /dom.js": "dom.js"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Security-Policy", pagePolicy)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cache-Control", "no-cache")
			http.ServeFileFS(w, r, pageFiles, "page/"+file)
		})
	}
}
