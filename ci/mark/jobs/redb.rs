//! Writes entries with random keys to a database in memory, and reads them by key and in order.

use redb::backends::InMemoryBackend;
use redb::{Database, ReadableTable, TableDefinition};

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("table");

fn write(database: &Database, keys: &[u64]) {
    for keys in keys.chunks(1000) {
        let transaction = database.begin_write().expect("begun");
        {
            let mut table = transaction.open_table(TABLE).expect("opened");
            for key in keys {
                table.insert(key, [7; 100].as_slice()).expect("inserted");
            }
        }
        transaction.commit().expect("committed");
    }
}

fn read(database: &Database, keys: &[u64]) -> usize {
    let table = database.begin_read().expect("begun").open_table(TABLE).expect("opened");
    let length = |key| table.get(key).expect("read").map_or(0, |value| value.value().len());
    keys.iter().map(length).sum()
}

fn scan(database: &Database) -> usize {
    let table = database.begin_read().expect("begun").open_table(TABLE).expect("opened");
    table.iter().expect("read").map(|entry| entry.expect("read").1.value().len()).sum()
}

fn main() {
    let next = |key: &u64| Some(key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    let keys: Vec<u64> = std::iter::successors(Some(1), next).map(|key| key >> 20).take(100_000).collect();
    let database = Database::builder().create_with_backend(InMemoryBackend::new()).expect("created");
    write(&database, &keys);
    let bytes: usize = (0..4).map(|_| read(&database, &keys) + scan(&database)).sum();
    println!("{bytes} bytes");
}
