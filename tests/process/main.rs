//! Whole-mesh tests on real binaries and real programs; see `leno_tests` for the ground they stand on.
//!
//! Every comparing test runs its cases twice, direct and meshed; `table_is_sound` beside it runs them
//! direct only and shows that the table asks for something possible.
//!
//! Most tests take a second or a few. Long are `memory::no_slope_over_short_connections` (a minute, 120,000
//! connections), `memory::no_slope_over_slow_readers`, `programs::redis_with_redis_benchmark`,
//! `programs::postgresql_with_psql_and_pgbench`, `transparency_http1::a_gibibyte_in_bounded_memory`,
//! `transparency_tcp` (silences of three seconds) and `smuggling` on the undeclared port (10-20 s each).

mod balance;
mod bench_run;
mod calls;
mod failing;
mod families;
mod http2_beside;
mod limits;
mod memory;
mod overload;
mod pages;
mod programs;
mod prometheus;
mod resilience;
mod routes;
mod security;
mod seeing;
mod series;
mod sharing;
mod smuggling;
mod tap;
mod tracing;
mod transparency_grpc;
mod transparency_http1;
mod transparency_http2;
mod transparency_tcp;
