//! Databases: their own protocols, some of which let the server speak first.

use super::{LIMIT, NOBODY, client, client_and_server, data_directory, same, text};
use leno_tests::authority::{Authority, Leaf};
use leno_tests::mesh::Mesh;
use leno_tests::program::{Program, Running};

/// Where Debian keeps the server's programs.
const POSTGRESQL: &str = "/usr/lib/postgresql/15/bin";

fn start_postgresql(mesh: &Mesh) -> Running {
    let namespace = &mesh.pod("server").namespace;
    let home = data_directory(mesh, "postgresql", NOBODY);
    let data = home.join("data");
    Program::new(format!("{POSTGRESQL}/initdb"))
        .args(["-D", &text(&data), "-U", "postgres", "-A", "trust", "--no-sync"])
        .user(NOBODY)
        .output(namespace, LIMIT)
        .expect("initdb (Debian: postgresql-15)");
    let leaf = Authority::new("the database's own").issue(&Leaf::dns("postgres.example"));
    for (name, content) in [("server.crt", leaf.pem()), ("server.key", leaf.key_pem())] {
        let path = data.join(name);
        std::fs::write(&path, content).expect("write a certificate");
        nix::unistd::chown(&path, Some(NOBODY.into()), Some(NOBODY.into())).expect("give it away");
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, closed).expect("close it");
    }
    let rules = "local all all trust\nhost all all 0.0.0.0/0 trust\nhost all all ::/0 trust\n";
    std::fs::write(data.join("pg_hba.conf"), rules).expect("write rules");
    let server = Program::new(format!("{POSTGRESQL}/postgres"))
        .args(["-D", &text(&data), "-c", "listen_addresses=*", "-c", "ssl=on", "-c", "fsync=off"])
        .args(["-c", &format!("unix_socket_directories={}", text(&home))])
        .user(NOBODY)
        .start(namespace)
        .expect("postgres");
    server.wait_for("ready to accept connections", LIMIT).expect("PostgreSQL starts");
    server
}

pub(super) fn postgresql() {
    same(
        "postgresql",
        || client_and_server([5432]),
        |mesh| {
            let _server = start_postgresql(mesh);
            let addresses = mesh.service("server").addresses;
            let psql = |host: String, tls: &str, command: &str| {
                let target = format!("host={host} user=postgres dbname=postgres sslmode={tls}");
                let program = Program::new("psql").args(["-X", "-A", "-d", &target, "-c", command]);
                client(mesh, program.env("PGCONNECT_TIMEOUT", "20"))
            };
            let rows = "create table t as select n, repeat('x', n % 100) as s from generate_series(1, 50000) n";
            let tls = "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()";
            let v4 = || addresses.v4.to_string();
            let mut lines = vec![
                psql(v4(), "disable", rows),
                psql(v4(), "disable", "select count(*), sum(n), sum(length(s)) from t"),
                psql(v4(), "disable", "copy t to stdout"),
                psql(v4(), "disable", tls),
                psql(v4(), "prefer", "select 1"),
                psql(v4(), "require", tls),
                psql(addresses.v6.to_string(), "disable", "select count(*) from t"),
            ];
            let bench = |arguments: &[&str]| {
                let host = v4();
                let program = Program::new(format!("{POSTGRESQL}/pgbench"))
                    .args(["-h", &host, "-U", "postgres"])
                    .args(arguments)
                    .args(["postgres"])
                    .env("PGSSLMODE", "disable");
                program.output(&mesh.pod("client").namespace, LIMIT)
            };
            bench(&["-i", "-s", "1", "-q"]).expect("pgbench -i");
            for arguments in [
                &["-c", "8", "-t", "100"][..],
                &["-c", "8", "-t", "100", "-M", "prepared", "-S"],
                // A connection per transaction: what pools are there to avoid.
                &["-c", "4", "-t", "50", "-C", "-S"],
            ] {
                let said = bench(arguments).expect("pgbench").text();
                let find = |begin: &str| said.lines().find(|line| line.starts_with(begin));
                println!("pgbench {arguments:?}: {}", find("tps").unwrap_or("no figure"));
                let find = |begin: &str| find(begin).unwrap_or("missing").to_owned();
                lines.push(find("number of transactions actually processed"));
                lines.push(find("number of failed transactions"));
            }
            lines
        },
    );
}

pub(super) fn redis() {
    same(
        "redis",
        || client_and_server([6379]),
        |mesh| {
            let home = data_directory(mesh, "redis", 0);
            let server = Program::new("redis-server")
                .args(["--port", "6379", "--bind", "0.0.0.0", "::", "--protected-mode", "no"])
                .args(["--save", "", "--dir", &text(&home)])
                .start(&mesh.pod("server").namespace)
                .expect("redis-server (Debian: redis-server)");
            server.wait_for("Ready to accept connections", LIMIT).expect("Redis starts");
            let host = mesh.service("server").addresses.v4.to_string();
            let ask = |words: &[&str]| {
                client(mesh, Program::new("redis-cli").args(["-h", &host]).args(words))
            };
            let mut lines = vec![
                ask(&["ping"]),
                ask(&["set", "k", "a value with \"quotes\" and \n a line"]),
                ask(&["get", "k"]),
                ask(&["eval", "return string.rep('x', 3000000)", "0"]),
                ask(&["--version"]),
            ];
            let script: String = (0..5000).map(|n| format!("RPUSH list {n}\r\n")).collect();
            let piped = Program::new("redis-cli").args(["-h", &host, "--pipe"]).input(script);
            lines.push(client(mesh, piped));
            lines.push(ask(&["lrange", "list", "0", "-1"]));
            // Ranges of large values would be gibibytes: what is asked for there are single ones.
            for (tests, arguments) in [
                ("ping,set,get,lrange_100", ["-P", "1"]),
                ("ping,set,get,lrange_100", ["-P", "16"]),
                ("set,get", ["-d", "10000"]),
            ] {
                let program = Program::new("redis-benchmark")
                    .args(["-h", &host, "-n", "5000", "-c", "20", "-q", "-t", tests])
                    .args(arguments);
                let said = client(mesh, program);
                let last = said.lines().flat_map(|line| line.rsplit('\r').next());
                let results: Vec<&str> = last.filter(|line| line.contains("per second")).collect();
                println!("redis-benchmark {arguments:?}: {results:?}");
                lines.push(format!("{} results", results.len()));
            }
            lines
        },
    );
}

pub(super) fn mariadb() {
    same(
        "mariadb",
        || client_and_server([3306]),
        |mesh| {
            let home = data_directory(mesh, "mariadb", NOBODY);
            let (data, socket) = (text(&home.join("data")), text(&home.join("socket")));
            let namespace = &mesh.pod("server").namespace;
            Program::new("mariadb-install-db")
                .args([
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ])
                .args([format!("--datadir={data}")])
                .user(NOBODY)
                .output(namespace, LIMIT)
                .expect("mariadb-install-db (Debian: mariadb-server)");
            let server = Program::new("/usr/sbin/mariadbd")
                .args([
                    "--no-defaults",
                    "--skip-grant-tables",
                    "--skip-networking=0",
                    "--port=3306",
                ])
                .args([format!("--datadir={data}"), format!("--socket={socket}")])
                .args([format!("--pid-file={}", text(&home.join("pid")))])
                .args([
                    "--bind-address=*",
                    "--skip-name-resolve",
                    "--innodb-flush-log-at-trx-commit=0",
                ])
                .user(NOBODY)
                .start(namespace)
                .expect("mariadbd");
            server.wait_for("ready for connections", LIMIT).expect("MariaDB starts");
            let host = mesh.service("server").addresses.v4.to_string();
            let ask = |statement: &str| {
                let program = Program::new("mariadb")
                    .args(["--no-defaults", "-h", &host, "-P", "3306", "-u", "root", "--skip-ssl"])
                    .args(["--connect-timeout=20", "-e", statement]);
                client(mesh, program)
            };
            vec![
                ask("select 1 + 1"),
                ask("select repeat('x', 100000) as r, length(repeat('y', 100000)) as l"),
                ask(
                    "with recursive n as (select 1 as i union all select i + 1 from n where i < 5000) select i, sha1(i) from n",
                ),
            ]
        },
    );
}
