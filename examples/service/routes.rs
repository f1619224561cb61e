//! The service's routes, and those that report on the service itself.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use perfmark::symbols::Symbols;
use perfmark::{Filter, Report, Sampling, perfmark};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::RwLock;

use crate::index::{Document, Index};

/// Results shown for one request.
const SHOWN: usize = 10;

type Shared = State<Arc<Service>>;

/// The number of requests by path and status.
type Requests = Family<[(&'static str, String); 2], Counter>;

pub(crate) struct Service {
    index: RwLock<Index>,
    requests: Requests,
    registry: Registry,
}

impl Service {
    pub(crate) fn new(index: Index) -> Self {
        let (requests, mut registry) = (Requests::default(), Registry::default());
        registry.register("http_requests", "Requests answered", requests.clone());
        registry.register_collector(Box::new(perfmark::Metrics::default()));
        Self { index: RwLock::new(index), requests, registry }
    }
}

pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/search", get(search))
        .route("/suggest", get(suggest))
        .route("/documents/{name}", put(store))
        .route_layer(from_fn_with_state(service.clone(), count))
        // These routes are for operators. A real service would have them on a separate port.
        .route("/metrics", get(metrics))
        .route("/perfmark/report", get(report))
        .route("/perfmark/snapshot", get(snapshot))
        .route("/perfmark/sample", post(sample))
        .route("/perfmark/filter", get(filter).put(set_filter))
        .with_state(service)
}

#[derive(serde::Deserialize)]
struct Search {
    q: String,
}

#[perfmark]
async fn search(State(service): Shared, Query(Search { q }): Query<Search>) -> String {
    let index = service.index.read().await;
    index.rank(&q).into_iter().take(SHOWN).fold(String::new(), |mut text, (score, name)| {
        _ = writeln!(text, "{score:.4} {name}");
        text
    })
}

#[derive(serde::Deserialize)]
struct Suggest {
    prefix: String,
}

#[perfmark]
async fn suggest(State(service): Shared, Query(Suggest { prefix }): Query<Suggest>) -> String {
    let index = service.index.read().await;
    index.complete(&prefix).into_iter().take(SHOWN).flat_map(|word| [word, "\n"]).collect()
}

/// Reads the text on a thread for blocking work. Searches wait only while it is inserted.
#[perfmark]
async fn store(State(service): Shared, Path(name): Path<String>, text: String) -> StatusCode {
    let Ok(document) = tokio::task::spawn_blocking(move || Document::read(&text)).await else {
        return StatusCode::INTERNAL_SERVER_ERROR;
    };
    service.index.write().await.insert(&name, document);
    StatusCode::NO_CONTENT
}

async fn count(State(service): Shared, path: MatchedPath, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let labels = [("path", path.as_str().to_owned()), ("status", response.status().as_str().to_owned())];
    service.requests.get_or_create(&labels).inc();
    response
}

async fn metrics(State(service): Shared) -> Response {
    let mut text = String::new();
    match encode(&mut text, &service.registry) {
        Ok(()) => {
            ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn report() -> String {
    Report::new(&perfmark::snapshot()).to_string()
}

async fn snapshot() -> impl IntoResponse {
    let snapshot = perfmark::snapshot();
    ([(CONTENT_TYPE, "application/json")], Report::new(&snapshot).format(perfmark::Format::Json).to_string())
}

/// The longest time for which one request samples the service.
const LONGEST: Duration = Duration::from_secs(300);

#[derive(serde::Deserialize)]
struct Sample {
    seconds: u64,
}

/// Samples the service for some seconds, and returns the table of this time with the hottest lines.
async fn sample(Query(Sample { seconds }): Query<Sample>) -> Result<String, (StatusCode, String)> {
    let before = perfmark::snapshot();
    // It is being sampled already, or the kernel refuses.
    let sampling = Sampling::new().start().map_err(|error| (StatusCode::CONFLICT, format!("{error}\n")))?;
    tokio::time::sleep(Duration::from_secs(seconds).min(LONGEST)).await;
    // Collecting the last samples and reading debug information take milliseconds.
    let report = tokio::task::spawn_blocking(move || {
        drop(sampling);
        let mut samples = perfmark::snapshot().since(&before);
        let problems = Symbols::new().name(&mut samples);
        samples.notes.extend(problems.iter().map(|problem| format!("no lines of {problem}")));
        Report::new(&samples).to_string()
    });
    report.await.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")))
}

async fn filter() -> String {
    format!("{}\n", perfmark::filter())
}

async fn set_filter(text: String) -> Result<String, (StatusCode, String)> {
    match text.parse::<Filter>() {
        Ok(new) => {
            perfmark::set_filter(&new).map_err(|error| (StatusCode::INSUFFICIENT_STORAGE, format!("{error}\n")))?;
            Ok(filter().await)
        }
        Err(error) => Err((StatusCode::BAD_REQUEST, format!("{error}\n"))),
    }
}
